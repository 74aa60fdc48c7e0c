-- Adds calls to the month that these counters have not seen.
-- KEYS[1] o:{org}   ARGV 1 calls  2 the incarnation the calls were settled under  3 month
local v = redis.call('GET', KEYS[1])
if not v then return 'gone' end
local ep, inc, mi, mu, ol, ot = struct.unpack('<I4I4I4I8dd', v)
local want = tonumber(ARGV[2])
if inc == 0 then return 'gone' end      -- whoever rebuilds the counters will read them from the database
if inc > want then return 'included' end -- rebuilt since, from a reading that has them
if inc < want then return 'early' end    -- being rebuilt right now, from a reading that lacks them
if mi == tonumber(ARGV[3]) then
  redis.call('SET', KEYS[1], struct.pack('<I4I4I4I8dd', ep, inc, mi, mu + tonumber(ARGV[1]), ol, ot), 'EX', 259200)
end
return 'done'
