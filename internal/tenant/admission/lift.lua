-- Starts the next incarnation of an org's counters with the same values, and answers the month and its total.
-- Answers 'gone' if there is no record, or 'moved' if it has another incarnation.
-- KEYS[1] o:{org}   ARGV 1 the incarnation they must have  2 the next one
local v = redis.call('GET', KEYS[1])
if not v then return 'gone' end
local ep, inc, mi, mu, ol, ot = struct.unpack('<I4I4I4I8dd', v)
if inc ~= tonumber(ARGV[1]) then return 'moved' end
redis.call('SET', KEYS[1], struct.pack('<I4I4I4I8dd', ep, tonumber(ARGV[2]), mi, mu, ol, ot), 'EX', 259200)
return string.format('%d %d', mi, mu)
