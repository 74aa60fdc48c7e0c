-- Acquires a slot for a stream of a key unless all are taken. Slots of nodes that died expire.
-- KEYS: the set of slots. ARGV: the maximum (-1 for no limit), the lifetime in ms, the stream.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local taken, most = redis.call('ZCARD', KEYS[1]), tonumber(ARGV[1])
if most >= 0 and taken >= most then
  return 'full'
end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 'ok'
