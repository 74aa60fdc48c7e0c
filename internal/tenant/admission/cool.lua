-- Records a cool-down or a new session version of an account, for all nodes. Both only grow.
-- KEYS[1] a:{org}:acct
-- ARGV 1 milliseconds from now (0 = none)  2 session version (0 = none)  3 now (0 = the clock of Redis)
local now = tonumber(ARGV[3])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local sv, cd, rl, rt, wl, wt = 0, 0, 0, now, 0, 0
local a = redis.call('GET', KEYS[1])
if a then sv, cd, rl, rt, wl, wt = struct.unpack('<I4ddddd', a) end
local ms = tonumber(ARGV[1])
if ms > 0 then cd = math.max(cd, now + ms) end
sv = math.max(sv, tonumber(ARGV[2]))
redis.call('SET', KEYS[1], struct.pack('<I4ddddd', sv, cd, rl, rt, wl, wt), 'EX', 172800)
return 'ok'
