-- Keeps places, also such as were taken while this server was away.
-- KEYS: the places. ARGV: for how long in ms, the streams.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for i = 2, #ARGV do
  redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[i])
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 'ok'
