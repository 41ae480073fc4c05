-- Releases a lock on one node, or makes sure that an owner has nothing there. Then it wakes the
-- head of the queue, or the readers at the head. It grants nothing, so it does not check the epoch.
-- It works also if memory is short, since its first write needs none: see epoch.lua of
-- backend-redis.
--
-- KEYS: those of acquire.lua
-- args: leaver keep up_to leaves_queue tombstone tombstone_ms
--       leaver: an owner, or '' to free the lock of any holder, even if it cannot be read. keep: ms
--       to keep it, or ''. up_to: the last attempt whose record may be freed, or '' for any.
--       leaves_queue: 1 to remove its entry, too. tombstone: the last attempt that must take
--       nothing from now on, or '' to leave no tombstone. tombstone_ms: how long one stays
-- Answer: {'freed', clock, 1 if it was held}, or that of `unknown` of backend-redis
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local mine = false
if leaver == '' then
  -- If the records have another version, an owner may only release its own lock.
  -- include unknown
  local refusal = unknown(unpack(redis.call('HMGET', KEYS[1], 'version', 'longest')))
  if refusal then return refusal end
end
local record = redis.pcall('GET', KEYS[2])
if type(record) == 'table' then
  -- include read
  record = read(KEYS[2])
end
-- include tunables
-- As in acquire.lua.
local TURN_US = 100000
local writer_left, head_left, was_full = false, false, false
if leaves_queue == '1' and redis.call('ZREM', KEYS[3], leaver) == 1 then
  -- include is_reader
  -- include readers_line
  -- guard: writer_left | L4 | a_reader_that_gives_up | writer_left = true
  writer_left = not is_reader(redis.call('HGET', KEYS[4], leaver) or '')
  redis.call('HDEL', KEYS[4], leaver)
  local whose = string.sub(redis.call('HGET', KEYS[4], 'turn') or '', 1, 32)
  -- If it was the turn of readers, others may be at the head now.
  -- guard: turn_left | L2 | a_reader_that_is_called_and_leaves | if whose == leaver then
  if whose == leaver or whose == READERS then
    redis.call('HDEL', KEYS[4], 'turn')
    -- guard: head_left | L3 | a_head_that_leaves
    head_left = true
  end
end
if leaver == '' then
  -- A queue or entries of another type would make every attempt fail.
  for at, answer in pairs({[3] = redis.pcall('ZCARD', KEYS[3]), [4] = redis.pcall('HGET', KEYS[4], '')}) do
    if type(answer) == 'table' and string.find(answer.err, 'WRONGTYPE', 1, true) then
      mine = redis.call('DEL', KEYS[at]) == 1
    end
  end
end
if record then
  local owner, number, state, last, label =
    string.match(record, '^(%x+) (%d+) (%d) (%d+) ([^\n]*)')
  -- guard: owner_frees | S4 | only_the_owner_releases | mine = true
  mine = leaver == '' or owner == leaver
  local count, from, to = last, nil, nil
  if leaver ~= '' and not mine then
    -- include readers_line
    -- One of the readers that share it: see acquire.lua.
    from = owner == READERS and string.find(record, '\n' .. leaver .. ' ', 1, true)
    if from then last, to = string.match(record, '^%d+ (%d+) %d+()', from + 34) end
    -- guard: reader_frees | S4 | a_release_by_an_owner_that_is_no_reader | mine = true
    mine = from and true
  end
  -- guard: later_attempt | S6 | a_late_clean_up(writer)
  -- guard: later_attempt_of_a_reader | S6 | a_late_clean_up(reader)
  if up_to ~= '' and mine and tonumber(last) > tonumber(up_to) then mine = false end
  -- A lock that was released and is kept stays until it expires or is freed by force, even if the
  -- release that keeps it is repeated late.
  -- guard: kept | S4 | a_release_of_what_is_kept
  if mine and leaver ~= '' and state == '1' then mine = false end
  was_full = mine and from and tonumber(count) >= MOST_READERS
  local rest = mine and from and string.sub(record, 1, from - 1) .. string.sub(record, to)
  -- guard: last_reader | S4 | a_reader_that_leaves_twice_counts_once | if false then
  if rest and string.find(rest, '\n', 1, true) then
    rest = string.gsub(rest, '^(%x+ %d+ 0) %d+', '%1 ' .. count - 1)
    local left = math.max(1, redis.call('PTTL', KEYS[2]))
    redis.call('PEXPIRE', KEYS[2], left)
    -- guard: leaves | S4 | a_reader_that_left_renews_nothing
    redis.call('SET', KEYS[2], rest, 'PX', left)
  elseif mine and keep ~= '' and not rest then
    redis.call('PEXPIRE', KEYS[2], keep)
    redis.call('SET', KEYS[2], table.concat({owner, number, '1', last, label}, ' '), 'PX', keep)
  elseif mine then
    redis.call('DEL', KEYS[2])
    record = false
  end
end
if tombstone ~= '' then
  local gone = redis.call('GET', KEYS[5])
  -- guard: tombstone_rises | S6 | an_owner_abandoned_twice | if true then
  if not gone or tonumber(gone) < tonumber(tombstone) then
    redis.call('PEXPIRE', KEYS[5], tombstone_ms)
    -- guard: leaves_tombstone | S6 | an_abandoned_owner_takes_nothing_any_more
    redis.call('SET', KEYS[5], tombstone, 'PX', tombstone_ms)
    -- See acquire.lua.
    -- guard: tombstone_makes_a_crowd | S6 | an_owner_abandoned_twice | local crowd = 0
    local crowd = now + (tombstone_ms + 1000) * 1000
    if crowd > tonumber(redis.call('HGET', KEYS[1], 'crowd') or 0) then
      redis.call('HSET', KEYS[1], 'crowd', string.format('%.0f', crowd))
    end
  end
end
-- Beside readers only readers get in: if a writer before them gave up, or if the number of readers
-- was at its limit. All readers that were called before need no second call.
local shared = false
if record then
  -- include readers_line
  shared = string.sub(record, 1, 32) == READERS
end
local called = not record and (mine or head_left)
-- guard: call_beside | L2 | a_writer_that_gives_up
-- guard: call_at_the_limit | L2 | one_that_leaves_the_most |
--   called = called or shared and writer_left
-- guard: call_below_the_limit | L4 | one_that_leaves_another |
--   called = called or shared and (writer_left or mine)
called = called or shared and (writer_left or was_full)
-- guard: handoff | L2 | a_release_with_one_waiting | called = false
called = called and redis.call('EXISTS', KEYS[3]) == 1
if called then
  -- include unknown
  called = not unknown(unpack(redis.call('HMGET', KEYS[1], 'version', 'longest')))
end
if called then
  -- include is_reader
  -- include readers_line
  local readers, turn_ends = 0, string.format('%.0f', now + TURN_US)
  while true do
    local head = redis.call('ZRANGE', KEYS[3], readers, readers)[1]
    if not head then break end
    local entry = redis.call('HGET', KEYS[4], head) or ''
    local ends, channel = string.match(entry, '^(%d+) [rw] (.*)$')
    ends = tonumber(ends or 0)
    -- An end more than one life ahead: the clock went back, and the entry may be long dead.
    -- guard: dead_entry | L3 | a_dead_entry(old) | if ends <= now + LIFE_US then
    -- guard: entry_of_a_clock_ahead | L3 | a_dead_entry(ahead) | if ends > now then
    if ends > now and ends <= now + LIFE_US then
      -- A reader's entry: other readers may get in with it.
      -- guard: call_readers | L2 | two_readers_that_are_called | local reader = false
      local reader = is_reader(entry)
      -- guard: call_writer_behind | L3 | a_writer_behind_a_reader |
      --   if not reader and shared then break end
      -- guard: call_writer_beside | L3 | a_writer_that_waits_for_a_reader |
      --   if not reader and readers > 0 then break end
      if not reader and (shared or readers > 0) then break end
      redis.call('HSET', KEYS[4], 'turn', (reader and READERS or head) .. ' ' .. turn_ends)
      redis.call('PUBLISH', channel, head)
      if not reader then break end
      readers = readers + 1
    else
      redis.call('ZREM', KEYS[3], head)
      redis.call('HDEL', KEYS[4], head)
    end
  end
end
return {'freed', string.format('%.0f', now), mine and 1 or 0}
