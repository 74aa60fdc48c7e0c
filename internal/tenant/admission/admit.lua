-- Admission in one round trip: all limits, the platform's cool-down, the org's epoch and the account's session version.
-- All or nothing: a call that is denied consumes nothing.
--
-- KEYS[1] o:{org}        I4 epoch | I4 incarnation | I4 month | I8 used | d level | d level_at
-- KEYS[2] a:{org}:acct   I4 session_version | d cooldown_until | d read | d read_at | d write | d write_at
--      or s:{org}, j:{org}:… for kind 3   d level | d level_at
-- ARGV 1 kind (0 plain, 1 read, 2 write, 3 a bucket of its own: safety, or the share of jobs)  2 org per minute  3 org per month  4 month as yyyymm
--      5 per minute of the account, or of the own bucket  6 peek (1 = consume nothing)  7 the caller's epoch  8 the caller's incarnation
--      9 now (0 = the clock of Redis, so that the nodes' clocks need not agree)
--      10 fresh (1 = the caller read the org after its call began, so a newer epoch does not make it stale)
-- Times are in milliseconds. A limit of -1 is not enforced.
local now = tonumber(ARGV[9])
if now == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local kind = tonumber(ARGV[1])
local olim, mlim, mid, slim = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local epoch, incarnation = tonumber(ARGV[7]), tonumber(ARGV[8])

local ep, inc, mi, mu, ol, ot = 0, 0, mid, 0, 0, now
local v = redis.call('GET', KEYS[1])
if v then ep, inc, mi, mu, ol, ot = struct.unpack('<I4I4I4I8dd', v) end

local function answer(verdict, wait, sv, sl, lw)
  return struct.pack('<BddI4I4I4dI8dd', verdict, wait, now, mi, inc, sv, ol, mu, sl, lw)
end

-- 8: these are not the counters that the caller knows: they were lost, or another node has rebuilt them.
if inc == 0 or inc ~= incarnation then return answer(8, 0, 0, 0, 0) end
-- 7: the caller's identity is older than a change that may already have been confirmed.
if epoch < ep and ARGV[10] ~= '1' then return answer(7, 0, 0, 0, 0) end
local newer = epoch > ep
if newer then ep = epoch end

if mi < mid then mu = 0; mi = mid end
-- A bucket drains at its limit's rate. A bucket without a limit stays empty, and one whose limit was lowered is at most
-- full: calls made under the higher limit do not count against the org.
local function drained(level, at, limit)
  if limit < 0 then return 0 end
  level = math.min(level, limit)
  if now > at then level = math.max(level - (now - at) * limit / 60000, 0) end
  return level
end
ol = drained(ol, ot, olim)
if now > ot then ot = now end

-- Safety and the share of jobs have their own buckets and use nothing else: an org that has used up everything can still
-- stop things.
if kind == 3 then
  local level, at = 0, now
  local s = redis.call('GET', KEYS[2])
  if s then level, at = struct.unpack('<dd', s) end
  level = drained(level, at, slim)
  if now > at then at = now end
  if newer then redis.call('SET', KEYS[1], struct.pack('<I4I4I4I8dd', ep, inc, mi, mu, ol, ot), 'EX', 259200) end
  if level + 1 > slim then return answer(5, (level + 1 - slim) * 60000 / slim, 0, level, 0) end
  level = level + 1
  redis.call('SET', KEYS[2], struct.pack('<dd', level, at), 'EX', 120) -- it is empty after a minute
  return answer(0, 0, 0, level, 0)
end

-- write_at is also when the account was last written to; 0 for never. Callers use it to know that nothing has changed.
local sv, cd, rl, rt, wl, wt, sl = 0, 0, 0, now, 0, 0, 0
if kind > 0 then
  local a = redis.call('GET', KEYS[2])
  if a then sv, cd, rl, rt, wl, wt = struct.unpack('<I4ddddd', a) end
  if kind == 1 then
    rl = drained(rl, rt, slim)
    if now > rt then rt = now end
    sl = rl
  else
    wl = drained(wl, wt, slim)
    sl = wl
  end
end
local lw = wt
if kind == 2 and now > wt then wt = now end

-- The reason is the limit with the longest wait, so that waiting once suffices for all limits.
local reason, wait = 0, 0
if cd > now then reason = 9; wait = cd - now end
if olim >= 0 and ol + 1 > olim then
  local x = (ol + 1 - olim) * 60000 / olim
  if x > wait then reason = 1; wait = x end
end
if kind > 0 and slim >= 0 and sl + 1 > slim then
  local x = (sl + 1 - slim) * 60000 / slim
  if x > wait then reason = 2 + kind; wait = x end
end
if mlim >= 0 and mu + 1 > mlim then reason = 2; wait = 0 end

local consume = reason == 0 and ARGV[6] ~= '1'
if consume then
  mu = mu + 1
  if olim >= 0 then ol = ol + 1 end
  if slim >= 0 then sl = sl + 1 end
  if kind == 1 then rl = sl elseif kind == 2 then wl = sl end
  if kind > 0 then redis.call('SET', KEYS[2], struct.pack('<I4ddddd', sv, cd, rl, rt, wl, wt), 'EX', 172800) end
end
if consume or newer then
  redis.call('SET', KEYS[1], struct.pack('<I4I4I4I8dd', ep, inc, mi, mu, ol, ot), 'EX', 259200)
end
return answer(reason, wait, sv, sl, lw)
