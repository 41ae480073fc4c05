-- One attempt. If it is refused and the client wants it, the owner gets an entry in the queue.
-- KEYS: 1 epoch record   2 lock   3 queue   4 entries   5 tombstone of the owner
-- epoch args: owner lease label floor channel mode
--       lease: in ms. floor: '' for none. channel: for pushes, or '' for no entry. mode: 'r' for a
--       reader, '' for a writer
-- Answer: in the common case only the token, since a table would cost the server a buffer of its
--       own. Otherwise {'granted', token}, {'busy', ...} of `busy`, {'exhausted'}, or the refusals
--       of check_epoch.lua and check_request.lua.

local reader = mode == 'r'
-- The common case: a writer finds no record, no queue and no tombstone.
-- guard: free_tombstone | S6 | short_ways_do_what_long_ways_do |
--   if not reader and redis.call('EXISTS', KEYS[2], KEYS[3]) == 0 then
-- guard: free_queue | L3 | short_ways_do_what_long_ways_do |
--   if not reader and redis.call('EXISTS', KEYS[2], KEYS[5]) == 0 then
-- guard: free_lock | S1 | short_ways_do_what_long_ways_do |
--   if not reader and redis.call('EXISTS', KEYS[3], KEYS[5]) == 0 then
if not reader and redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[5]) == 0 then
  -- include grant
end

-- include unknown
-- include text
-- include clock
-- include tunables
-- include records
-- include holders
-- include handoff
-- include entries
-- include busy
lease = tonumber(lease)
if floor == '' then floor = '0' end
local now = clock()
-- guard: held | S1 | a_held_lock_is_refused_with_its_holder_and_token | local record = false
local record = living(read(KEYS[2]), now)
local own = record and holds(record, owner)
if own then
  local e = redis.call('HMGET', KEYS[1], 'longest', 'version')
  local refusal = unknown(e[2], e[1])
  -- guard: repeat_version | S1 | another_version_is_refused
  if refusal then return refusal end
  -- A client that knows an old longest lease learns the new one below.
  -- guard: repeat_lease | S1 | a_repeat_above_the_longest_lease
  own = lease * 1000 <= (e[1] or longest) + 0
end
-- guard: repeat | S6 | a_repeat_by_the_owner_is_the_same_grant | if false then
if own then
  local _, token, state = parse(record)
  -- The claim of a lock that a handoff gave, as in renewal.lua.
  if state == '2' then
    hold_anew(owner, text(token), '0', label, lease)
    return {'granted', text(token)}
  -- guard: repeat_kept | S5 | a_repeat_of_what_is_kept | else
  elseif state == '0' then
    prolong(record, owner, now, lease)
    return {'granted', text(token)}
  end
end
-- include check_epoch
-- include check_request
-- guard: tombstone | S6 | an_abandoned_owner_takes_nothing_any_more
if redis.call('EXISTS', KEYS[5]) == 1 then return busy(owner, nil, mark, record) end
local group = readers(record)
if not record or reader and group then
  -- No request passes a live entry in the queue. This attempt is a heartbeat of its own entry.
  local crowded = redis.call('EXISTS', KEYS[3]) == 1
  if crowded then
    keep_entry(now, owner)
    local token
    record, token = hand_off(now, mark, owner, record)
    if token then return {'granted', token} end
    -- guard: join_entry | L3 | no_reader_passes_a_waiting_writer | crowded = false
    crowded = redis.call('EXISTS', KEYS[3]) == 1
    group = readers(record)
  end
  if not record or reader and group and group < MOST_READERS and not crowded then
    local _, token = parse(record)
    local floor, shown = tonumber(floor), nil
    -- include reader_token
    if not shown then return {'exhausted'} end
    if reader then
      share(record, {{owner, lease}}, token, label, lease, now)
    else
      hold(owner, shown, '0', label, lease)
    end
    return {'granted', shown}
  end
end
return busy(owner, keep_entry(now, owner, channel ~= '' and entry_of(mode, lease, floor, channel, label)), mark, record)
