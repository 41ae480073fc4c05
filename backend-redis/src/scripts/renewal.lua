-- The rule of a renewal, for renew.lua here and in backend-redlock. Before this text stand
-- records.lua, and the format's reader_end(record, owner): where the 13 digits of the end of this
-- reader's lease are in the record; nil if it is not there.

-- Renews one lock. It grants nothing, so it does not check the epoch. But it sets no lease above
-- `longest`, the present longest lease in µs (0: unknown), which may have been lowered since the
-- grant. Returns 1: renewed, 2: somebody else's, 0: gone.
local function renew(key, owner, lease, longest, now)
  lease = tonumber(lease)
  -- guard: renew_longest
  if longest ~= 0 then lease = math.min(lease, math.ceil(longest / 1000)) end
  local record = read(key)
  -- guard: renew_gone
  if not record then return 0 end
  local at = reader_end(record, owner)
  -- guard: renew_owner
  if not at and string.sub(record, 1, 32) ~= owner then return 2 end
  local ends = at and string.sub(record, at, at + 12)
  -- guard: renew_ended
  if ends and ends < lease_end(now, 0) then return 0 end
  local state = string.match(record, '^%x+ %d+ (%d)')
  -- guard: renew_kept
  if state ~= '0' and state ~= '2' then return 0 end
  -- Always written: Valkey lets WAIT cover only what a call has written. The expiry is set first,
  -- since that needs no memory: see epoch.lua.
  -- guard: renew_shorter
  local left = math.max(lease, redis.call('PTTL', key))
  -- guard: renew_writes
  redis.call('PEXPIRE', key, left)
  -- guard: renew_end
  if ends and lease_end(now, lease) > ends then redis.call('SETRANGE', key, at - 1, lease_end(now, lease)) end
  if state == '2' then
    -- The claim of a lock that was handed over, as in acquire.lua. The holder relies on the claim
    -- window, and the longest lease may be shorter than that.
    redis.call('SET', key, (string.gsub(record, '^(%x+ %d+) 2', '%1 0')), 'PX', left)
  end
  return 1
end
