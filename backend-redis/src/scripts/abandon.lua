-- Makes sure that an owner holds nothing, waits for nothing, and never will.
-- KEYS: as in epoch.lua
-- epoch args: leaver
-- Answer: 1 if it held the lock, otherwise 0.

-- include epoch
-- include tunables
-- include records
-- include holders
-- include handoff
if redis.call('HDEL', KEYS[4], leaver) == 1 then redis.call('LREM', KEYS[3], 1, leaver) end
local now = clock()
local record = living(read(KEYS[2]), now)
local owner, _, state = parse(record)
local mine = owner ~= nil
-- guard: abandon_owner | S4 | abandoning_frees_what_was_taken
mine = mine and owner == leaver
-- A lock that was released and is kept stays.
-- guard: abandon_kept | S4 | a_clean_up_of_what_is_kept
mine = mine and state ~= '1'
local group = readers(record) and record
if group and reader_position(group, leaver) then
  mine, group = true, leave(group, leaver, now)
elseif mine then
  redis.call('DEL', KEYS[2])
end
-- guard: abandon_tombstone | S6 | an_abandoned_owner_takes_nothing_any_more
redis.call('SET', KEYS[5], '1', 'PX', TOMB_MS)
-- Readers that waited behind this owner may get in now.
if not (mine or group) then return 0 end
-- guard: abandon_epoch | S1 | a_handoff_after_a_restart(abandon) |
--   local mark = redis.call('EXISTS', KEYS[3])
local mark = redis.call('EXISTS', KEYS[3]) == 1 and gate(now)
if type(mark) == 'number' then
  local done, result = pcall(hand_off, now, mark, nil, group)
  if not done then
    -- include forgive
  end
end
return mine and 1 or 0
