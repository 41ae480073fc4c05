-- part: handoff
-- The handoff: a free lock goes to the queue.

-- Gives the free lock to the first live entry. If that is a reader's, the readers behind it get in
-- too, up to the first writer. If readers share the lock, `group` is their record, and only readers
-- get in. The owner `asker` gets its whole lease at once; any other owner gets a push, and has the
-- claim window. The record is written once, however many readers get in, and before the pushes: who
-- is pushed believes.
-- Returns the new record, or the given one if nobody gets in, and the token as text if the asker
-- gets in.
local function hand_off(now, mark, asker, group)
  -- include tunables
  local record, count, longest_ms, more, pushes = group, 0, 0, {}, {}
  local group_token, label, asker_token
  if group then
    -- include records
    -- include holders
    local _
    count, _, group_token, _, label = readers(group), parse(group)
  end
  while true do
    local owner
    if count > 0 then owner = redis.call('LINDEX', KEYS[3], 0) else owner = redis.call('LPOP', KEYS[3]) end
    if not owner then break end
    local entry = redis.call('HGET', KEYS[4], owner)
    local until_, mode, lease, floor, channel, own_label =
      string.match(entry or '', '^(%d+) ([rw]) (%d+) (%d+) (%S+) (.*)$')
    until_ = tonumber(until_)
    -- An end more than one life ahead: the clock went back, and the entry may be long dead.
    -- guard: dead_entry | L3 | dead_entries
    if until_ and not (until_ > now and until_ <= now + LIFE_US) then until_ = nil end
    local reader = until_ and mode == 'r'
    if count > 0 then
      -- guard: writer_first | S1 | a_reader_past_a_writer
      if until_ and not (reader and count < MOST_READERS) then break end
      redis.call('LPOP', KEYS[3])
    end
    redis.call('HDEL', KEYS[4], owner)
    if until_ then
      local token, shown = group_token, nil
      -- guard: entry_floor | S2 | an_entry_with_a_floor | floor = 0
      floor = tonumber(floor)
      -- include reader_token
      if not shown then break end
      group_token, label = token, own_label
      local mine = owner == asker
      local ms = mine and tonumber(lease) or CLAIM_MS
      if mine then
        asker_token = shown
      else
        pushes[#pushes + 1] = channel
        pushes[#pushes + 1] = owner .. ' ' .. shown .. ' ' .. CLAIM_MS
      end
      if not reader then
        record = owner .. ' ' .. shown .. (mine and ' 0 ' or ' 2 ') .. label
        -- guard: claim | L3 | an_unclaimed_handoff |
        --   redis.call('SET', KEYS[2], record, 'PX', lease)
        redis.call('SET', KEYS[2], record, 'PX', ms)
        break
      end
      count, longest_ms = count + 1, math.max(longest_ms, ms)
      more[#more + 1] = {owner, ms}
    end
  end
  if more[1] then
    -- include records
    -- include holders
    record = share(group, more, group_token, label, longest_ms, now)
  end
  for at = 1, #pushes, 2 do
    local sharded = string.find(pushes[at], '}:spush:', 1, true)
    redis.call(sharded and 'SPUBLISH' or 'PUBLISH', pushes[at], pushes[at + 1])
  end
  return record, asker_token
end
