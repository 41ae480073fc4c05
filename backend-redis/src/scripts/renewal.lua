-- part: renewal
-- The rule of a renewal, for renew.lua here and in backend-redlock. Before this text stands the
-- format's reader_end(record, owner): where the 13 digits of the end of this reader's lease are in
-- the record; nil if it is not there.

-- include read

-- The records that this call has read. Readers of one lock share a record, which may be long, so it
-- is read once. What was read stays right for the other readers: a renewal changes only the end of
-- its own reader's lease, and a batch renews each reader once.
local records = {}

-- Renews one lock. It grants nothing, so it does not check the epoch. But it sets no lease above
-- `most`, the present longest lease in ms, which may have been lowered since the grant. Returns 1:
-- renewed, 2: somebody else's, 0: gone.
local function renew(key, owner, lease, most, now)
  lease = tonumber(lease)
  -- guard: renew_longest | S1 | a_renewal_above_the_longest_lease
  if lease > most then lease = most end
  local record = records[key]
  if record == nil then
    record = read(key)
    records[key] = record
  end
  -- guard: renew_gone | S5 | a_renewal_does_not_bring_a_released_grant_back |
  --   if not record then return 1 end
  if not record then return 0 end
  local own = string.sub(record, 1, 32) == owner
  local at = not own and reader_end(record, owner)
  -- guard: renew_owner | S4 | only_the_owner_renews
  -- guard: renew_reader_owner | S5 | a_reader_that_left_renews_nothing
  -- guard: renew_by_reader | L1 | a_reader_that_left_renews_nothing | if not own then return 2 end
  if not own and not at then return 2 end
  local ends = at and string.sub(record, at, at + 12)
  if ends then
    -- include lease_end
    -- guard: renew_ended | S5 | a_renewal_after_the_end
    if ends < lease_end(now, 0) then return 0 end
  end
  -- Behind the token. It costs less than a pattern, and there may be hundreds of locks.
  local behind = string.find(record, ' ', 34, true) or #record
  local state = string.sub(record, behind + 1, behind + 1)
  -- guard: renew_kept | S5 | a_renewal_of_what_is_kept
  if state ~= '0' and state ~= '2' then return 0 end
  -- Always written: Valkey lets WAIT cover only what a call has written. The expiry is set first,
  -- since that needs no memory: see epoch.lua.
  -- guard: renew_shorter | S3 | a_shorter_renewal | local left = lease
  local left = math.max(lease, redis.call('PTTL', key))
  -- guard: renew_writes | S1 | a_call_that_needs_no_longer_lease(renewal)
  redis.call('PEXPIRE', key, left)
  if ends then
    -- include lease_end
    local later = lease_end(now, lease)
    -- guard: renew_end | S3 | a_reader_whose_lease_is_prolonged(renewal)
    if later > ends then redis.call('SETRANGE', key, at - 1, later) end
  end
  if state == '2' then
    -- The claim of a lock that a handoff gave, as in acquire.lua. The holder relies on the claim
    -- window, and the longest lease may be shorter than that.
    redis.call('SET', key, string.sub(record, 1, behind) .. '0' .. string.sub(record, behind + 2), 'PX', left)
  end
  return 1
end
