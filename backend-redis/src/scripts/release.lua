-- Releases a grant and hands the lock to the first live entry, in one step. It may carry the next
-- request of the same process.
-- KEYS: 1 epoch record   2 lock   3 queue   4 entries   and, with a next request, 5 tombstone of its owner
-- epoch args: owner keep next_owner next_lease next_label next_floor next_channel
--       keep: ms to keep the record, or ''. next_owner: '' for none; the others as in acquire.lua
-- Answer: 1 if it was held, otherwise 0. With a next request: the answer to that, as in
--       acquire.lua, if it was held; otherwise 0 or {0, answer}.

local waited = redis.call('EXISTS', KEYS[3]) == 1
local record, mine = redis.pcall('GET', KEYS[2]), 0
-- The common case: a writer releases, and nobody waits.
local plain = type(record) == 'string' and keep == '' and not waited
-- guard: release_plain
plain = plain and string.sub(record, 1, 32) == owner
if plain then
  redis.call('DEL', KEYS[2])
  -- It grants nothing, so it does not check the epoch.
  if next_owner == '' then return 1 end
end

-- include records.lua
-- include epoch.lua
-- The next request of the same process gets the lock at once.
-- guard: next_free
if plain and not is_reader(next_floor) and redis.call('EXISTS', KEYS[5]) == 0 then
  local done, token = try(grant, next_owner, next_lease, next_label, next_floor)
  if done and token then return token end
end

-- include limits.lua
-- include queue.lua
local now = clock()
if type(record) == 'table' then record = read(KEYS[2]) end
if not plain then record = living(record, now) end
local holder, token, state, label = parse(record)
-- guard: release_owner
if holder == owner then mine = 1 end
local repeats = next_owner ~= '' and record and holds(record, next_owner)
if plain then
  record = false
elseif readers(record) and reader_position(record, owner) then
  mine, record = 1, leave(record, owner, now)
elseif repeats and state ~= '1'
  -- guard: next_version
  and not unknown(unpack(redis.call('HMGET', KEYS[1], 'version', 'longest')))
then
  -- A repeat of this release: the first try, or another client that came between, has handed the
  -- lock on. The next request gets its whole lease, as in acquire.lua.
  if readers(record) then
    prolong(record, next_owner, now, next_lease + 0)
  else
    hold_anew(next_owner, text(token), '0', label, math.max(redis.call('PTTL', KEYS[2]), next_lease + 0))
  end
  return {'granted', text(token)}
elseif mine == 1 and keep ~= '' then
  hold_anew(owner, text(token), '1', label, keep)
elseif mine == 1 then
  redis.call('DEL', KEYS[2])
  record = false
end
-- Beside readers a waiting reader may get in: the one that left may have been one too many.
-- guard: beside_readers
local passed = not record or readers(record)
if next_owner == '' and not (passed and waited) then return mine end
-- guard: release_epoch
local mark, refusal = gate(now)
if not mark then return next_owner == '' and mine or mine == 1 and refusal or {0, refusal} end
local queued = false
-- guard: next_tombstone
if next_owner ~= '' and redis.call('EXISTS', KEYS[5]) == 0 then
  local sound = true
  -- guard: next_late
  if late(now) then sound = false end
  -- guard: next_unfit
  if unfit(now, next_lease, next_floor) then sound = false end
  if sound then
    sound, queued = try(keep_entry, now, next_owner, entry_of(next_lease, next_floor, next_channel, next_label))
  end
  -- Otherwise the client sends the next request on its own.
  if not sound then next_owner = '' end
end
if passed then
  local done, given = try(hand_over, now, mark, next_owner, record)
  if done then record = given end
end
if next_owner == '' then return mine end
if passed and record and holds(record, next_owner) then
  local _, minted = parse(record)
  return mine == 1 and text(minted) or {0, {'granted', text(minted)}}
end
local answer = busy(next_owner, queued, math.max(mark, token or 0), record)
return mine == 1 and answer or {0, answer}
