-- Rebuilds an org's counters from the database. The newest incarnation wins; the level of the minute does not change.
-- Answers 'ok', or the existing incarnation if that is not older than the new one: then nothing was rebuilt.
-- KEYS[1] o:{org}   ARGV 1 epoch  2 incarnation  3 month  4 used
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ep, inc, mi, mu, ol, ot = 0, 0, 0, 0, 0, now
local v = redis.call('GET', KEYS[1])
if v then ep, inc, mi, mu, ol, ot = struct.unpack('<I4I4I4I8dd', v) end
local nep, ninc = tonumber(ARGV[1]), tonumber(ARGV[2])
if nep > ep then ep = nep end
local answer = 'ok'
if ninc > inc then inc = ninc; mi = tonumber(ARGV[3]); mu = tonumber(ARGV[4]) else answer = tostring(inc) end
redis.call('SET', KEYS[1], struct.pack('<I4I4I4I8dd', ep, inc, mi, mu, ol, ot), 'EX', 259200)
return answer
