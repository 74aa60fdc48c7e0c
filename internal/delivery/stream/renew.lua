-- Renews slots, and adds those that were acquired while Redis was unavailable.
-- KEYS: the set of slots. ARGV: the lifetime in ms, the streams.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for i = 2, #ARGV do
  redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[i])
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 'ok'
