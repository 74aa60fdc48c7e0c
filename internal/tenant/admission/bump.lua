-- Records a new epoch. If there is no record, this creates one with nothing but the epoch (incarnation 0), so that a
-- node that is rebuilding the counters from an older epoch cannot bring the older epoch back.
-- KEYS[1] o:{org}   ARGV 1 epoch
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ep, inc, mi, mu, ol, ot = 0, 0, 0, 0, 0, now
local v = redis.call('GET', KEYS[1])
if v then ep, inc, mi, mu, ol, ot = struct.unpack('<I4I4I4I8dd', v) end
local nep = tonumber(ARGV[1])
if nep > ep then
  redis.call('SET', KEYS[1], struct.pack('<I4I4I4I8dd', nep, inc, mi, mu, ol, ot), 'EX', 259200)
end
return 'ok'
