-- Adds calls to the month that these counters lack. The caller holds the lock on the ledger, so they cannot be rebuilt.
-- Answers 'done', 'gone' if there is no record, or 'moved' if it has another incarnation.
-- KEYS[1] o:{org}   ARGV 1 calls  2 the ledger's incarnation  3 month
local v = redis.call('GET', KEYS[1])
if not v then return 'gone' end
local ep, inc, mi, mu, ol, ot = struct.unpack('<I4I4I4I8dd', v)
if inc ~= tonumber(ARGV[2]) then return 'moved' end
local month = tonumber(ARGV[3])
if month > mi then mi = month; mu = 0 end
if month == mi then mu = mu + tonumber(ARGV[1]) end -- calls of a past month are not counted here
redis.call('SET', KEYS[1], struct.pack('<I4I4I4I8dd', ep, inc, mi, mu, ol, ot), 'EX', 259200)
return 'done'
