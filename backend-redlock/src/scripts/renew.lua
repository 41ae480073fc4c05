-- Renews grants on one node. It grants nothing, so it does not check the epoch. It sets no lease above the node's longest
-- lease, which may have been lowered since the grant.
-- KEYS: 1 epoch record, then the locks. ARGV: 1 the clock after which this clock is ahead, then owner and lease ms of each.
-- Answer: {'renewed', clock, answers, the longest lease in µs or 0}; answers: 1 renewed, 2 somebody else's, 0 gone. Or
-- that of unknown.lua of backend-redis.
-- include unknown.lua
-- include readers.lua
local time, answers = redis.call('TIME'), {}
local now = time[1] * 1000000 + time[2]
local stamp = string.format('%.0f', now)
local epoch = redis.call('HMGET', KEYS[1], 'longest', 'version')
local longest, refusal = epoch[1] or 0, unknown(epoch[2], epoch[1])
-- guard: renew_version
if refusal then return refusal end
for at = 2, #KEYS do
  local owner, lease = ARGV[2 * at - 2], tonumber(ARGV[2 * at - 1])
  -- guard: renew_longest
  if longest ~= 0 then lease = math.min(lease, math.ceil(longest / 1000)) end
  local record = redis.pcall('GET', KEYS[at])
  -- guard: renew_gone
  local answer = 0
  if type(record) == 'table' then
    -- A key of another type is somebody else's. The other renewals must not fail because of it.
    if not string.find(record.err, 'WRONGTYPE', 1, true) then return record end
    answer = 2
  -- Each reader has its own line in the record: see acquire.lua.
  -- guard: renew_owner
  elseif record and string.sub(record, 1, 32) ~= owner and not string.find(record, '\n' .. owner .. ' ', 1, true) then
    answer = 2
  -- guard: renew_kept
  elseif record and string.match(record, '^%x+ %d+ (%d)') == '0' then
    -- The expiry is set first, since that needs no memory.
    -- guard: renew_lengthens
    redis.call('PEXPIRE', KEYS[at], math.max(lease, redis.call('PTTL', KEYS[at])))
    local from = readers_line(record) and string.find(record, '\n' .. owner .. ' ', 1, true)
    local position, ends = string.match(record, '^%d+ %d+ ()(%d+)', from and from + 34 or #record + 1)
    -- guard: renew_end
    if ends and lease_end(now, lease) > ends then
      redis.call('SETRANGE', KEYS[at], position - 1, lease_end(now, lease))
    end
    answer = 1
  end
  answers[at - 1] = answer
end
-- Last, since it may need memory: see common.lua of backend-redis.
if now > tonumber(ARGV[1]) and now > tonumber(redis.call('HGET', KEYS[1], 'clock') or now) then
  -- Written for the time when the clock has come back: see acquire.lua.
  -- guard: renew_notes_clock
  redis.pcall('HSET', KEYS[1], 'clock', stamp)
end
return {'renewed', stamp, answers, longest}
