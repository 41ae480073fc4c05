-- Renews grants. It grants nothing, so it does not check the epoch. But it sets no lease above the longest lease, which may
-- have been lowered since the grant.
-- KEYS: the locks, then the epoch record, unless the caller has read it
-- ARGV: owner and lease ms of each lock
-- Answers: 1 renewed, 2 somebody else's, 0 gone; last the longest lease in µs, or 0. Or that of unknown.lua.

-- include unknown.lua
-- include readers.lua
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
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
    local other, reader = string.sub(record, 1, 32) ~= owner, nil
    local line = readers_line(record)
    if line then
      -- guard: renew_reader
      reader = string.find(record, owner, line, true)
      other = not reader
    end
    -- A reader from before each had an end has none.
    local ends = reader and string.match(record, '^:(%d+)', reader + 32)
    -- guard: renew_owner
    if other then
      answer = 2
    -- guard: renew_ended
    elseif ends and ends < lease_end(now, 0) then
      answer = 0
    -- guard: renew_kept
    elseif state == '0' or state == '2' then
      -- Always written: Valkey lets WAIT cover only what a call has written. The expiry is set first, since that needs no
      -- memory: see common.lua.
      -- guard: renew_shorter
      local left = math.max(lease, redis.call('PTTL', KEYS[at]))
      -- guard: renew_writes
      redis.call('PEXPIRE', KEYS[at], left)
      -- guard: renew_end
      if ends and lease_end(now, lease) > ends then
        redis.call('SETRANGE', KEYS[at], reader + 32, lease_end(now, lease))
      end
      if state == '2' then
        -- The claim of a lock that was handed over, as in acquire.lua. The holder relies on the claim window, and the
        -- longest lease may be shorter than that.
        local claimed = string.gsub(record, '^(%x+ %d+) 2', '%1 0')
        redis.call('SET', KEYS[at], claimed, 'PX', left)
      end
      answer = 1
    end
  end
  answers[at] = answer
end
answers[count + 1] = longest
return answers
