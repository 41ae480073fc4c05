-- Renews grants. It grants nothing, so it does not check the epoch. But it sets no lease above the longest lease, which may
-- have been lowered since the grant.
-- KEYS: the locks, then the epoch record, unless the caller has read it
-- ARGV: owner and lease ms of each lock
-- Answers: 1 renewed, 2 somebody else's, 0 gone; last the longest lease in µs, or 0. Or that of unknown.lua.

-- include unknown.lua
local answers, count = {}, #ARGV / 2
local epoch = KEYS[count + 1] and redis.call('HMGET', KEYS[count + 1], 'longest', 'version') or {}
local longest, refusal = epoch[1] or 0, unknown(epoch[2], epoch[1])
-- guard: renew_version
if refusal then return refusal end
for at = 1, count do
  local owner, lease = ARGV[2 * at - 1], tonumber(ARGV[2 * at])
  -- guard: renew_longest
  if longest ~= 0 then lease = math.min(lease, math.ceil(longest / 1000)) end
  local record = redis.pcall('GET', KEYS[at])
  -- guard: renew_gone
  local answer = 0
  if type(record) == 'table' then
    -- A key of another type is somebody else's. The other renewals must not fail because of it.
    if not string.find(record.err, 'WRONGTYPE', 1, true) then return record end
    answer = 2
  elseif record then
    local state = string.match(record, '^%x+ %d+ (%d)')
    local other = string.sub(record, 1, 32) ~= owner
    if other and string.find(record, '^0+ ') then
      -- Readers share it, and each has its owner on the second line: see common.lua.
      -- guard: renew_reader
      other = not string.find(record, owner, string.find(record, '\n', 1, true) or #record, true)
    end
    -- guard: renew_owner
    if other then
      answer = 2
    -- guard: renew_kept
    elseif state == '0' then
      -- guard: renew_shorter
      if redis.call('PTTL', KEYS[at]) < lease then redis.call('PEXPIRE', KEYS[at], lease) end
      answer = 1
    elseif state == '2' then
      -- The claim of a lock that was handed over, as in acquire.lua. The holder relies on the claim window, and the longest
      -- lease may be shorter than that. The expiry is set first, since that needs no memory: see common.lua.
      lease = math.max(lease, redis.call('PTTL', KEYS[at]))
      redis.call('PEXPIRE', KEYS[at], lease)
      local claimed = string.gsub(record, '^(%x+ %d+) 2', '%1 0')
      redis.call('SET', KEYS[at], claimed, 'PX', lease)
      answer = 1
    end
  end
  answers[at] = answer
end
answers[count + 1] = longest
return answers
