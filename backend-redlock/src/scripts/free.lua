-- Releases a lock on one node, or makes sure that an owner has nothing there. Then it wakes the head of the queue, or
-- the readers at the head. It grants nothing, so it does not check the epoch. It works also if memory is short, since its
-- first write needs none: see common.lua of backend-redis.
--
-- KEYS: those of acquire.lua
-- ARGV: 1 owner, or '' to free the lock of any holder, even if it cannot be read   2 ms to keep it, or ''
--       3 the last attempt whose record may be freed, or '' for any
--       4 the last attempt that must take nothing from now on, or '' to leave no tombstone
--       5 1 to remove its entry, too   6 how long a tombstone stays, ms
-- Answer: {'freed', clock, 1 if it was held}, or that of unknown.lua of backend-redis
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local record, mine = redis.pcall('GET', KEYS[2]), false
if type(record) == 'table' then
  -- A key of another type is a record that cannot be read, and belongs to no owner.
  if not string.find(record.err, 'WRONGTYPE', 1, true) then return record end
  record = ''
end
-- The common case: the lock is held, nothing else is asked for, and nobody waits.
if ARGV[2] == '' and ARGV[3] == '' and ARGV[4] == '' and ARGV[5] == '' and ARGV[1] ~= '' then
  if record
    -- guard: short_owner
    and string.sub(record, 1, 32) == ARGV[1]
    -- guard: short_kept
    and string.match(record, '^%x+ %d+ 0 ')
    -- guard: short_queue
    and redis.call('EXISTS', KEYS[3]) == 0
  then
    redis.call('DEL', KEYS[2])
    return {'freed', string.format('%.0f', now), 1}
  end
end
-- include unknown.lua
local refusal = unknown(unpack(redis.call('HMGET', KEYS[1], 'version', 'longest')))
-- If the records have another version, an owner may only release its own lock.
if refusal and ARGV[1] == '' then return refusal end
-- include limits.lua
-- As in acquire.lua.
local TURN_US = 100000
local function text(number) return string.format('%.0f', number) end
local READERS = string.rep('0', 32)
local writer_left, head_left, was_full = false, false, false
if ARGV[5] == '1' and redis.call('ZREM', KEYS[3], ARGV[1]) == 1 then
  -- guard: writer_left
  writer_left = not string.find(redis.call('HGET', KEYS[4], ARGV[1]) or '', '^0%d')
  redis.call('HDEL', KEYS[4], ARGV[1])
  local whose = string.sub(redis.call('HGET', KEYS[4], 'turn') or '', 1, 32)
  -- If it was the turn of readers, others may be at the head now.
  -- guard: turn_left
  if whose == ARGV[1] or whose == READERS then
    redis.call('HDEL', KEYS[4], 'turn')
    -- guard: head_left
    head_left = true
  end
end
if ARGV[1] == '' then
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
  -- guard: owner_frees
  mine = ARGV[1] == '' or owner == ARGV[1]
  local count, from, to = last, nil, nil
  if ARGV[1] ~= '' and owner == READERS then
    -- One of the readers that share it: see acquire.lua.
    from = string.find(record, '\n' .. ARGV[1] .. ' ', 1, true)
    if from then last, to = string.match(record, '^%d+ (%d+) ?%d*()', from + 34) end
    -- guard: reader_frees
    mine = from ~= nil
  end
  -- guard: later_attempt
  if ARGV[3] ~= '' and mine and tonumber(last) > tonumber(ARGV[3]) then mine = false end
  -- A lock that was released and is kept stays until it expires or is freed by force, even if the release that keeps it is
  -- repeated late.
  -- guard: kept
  if mine and ARGV[1] ~= '' and state == '1' then mine = false end
  was_full = mine and from and tonumber(count) >= MOST_READERS
  local rest = mine and from and string.sub(record, 1, from - 1) .. string.sub(record, to)
  -- guard: last_reader
  if rest and string.find(rest, '\n', 1, true) then
    rest = string.gsub(rest, '^(%x+ %d+ 0) %d+', '%1 ' .. text(count - 1))
    local left = math.max(1, redis.call('PTTL', KEYS[2]))
    redis.call('PEXPIRE', KEYS[2], left)
    -- guard: leaves
    redis.call('SET', KEYS[2], rest, 'PX', left)
  elseif mine and ARGV[2] ~= '' and not rest then
    redis.call('PEXPIRE', KEYS[2], ARGV[2])
    redis.call('SET', KEYS[2], table.concat({owner, number, '1', last, label}, ' '), 'PX', ARGV[2])
  elseif mine then
    redis.call('DEL', KEYS[2])
    record = false
  end
end
if ARGV[4] ~= '' then
  local gone = redis.call('GET', KEYS[5])
  -- guard: tombstone_rises
  if not gone or tonumber(gone) < tonumber(ARGV[4]) then
    redis.call('PEXPIRE', KEYS[5], ARGV[6])
    -- guard: leaves_tombstone
    redis.call('SET', KEYS[5], ARGV[4], 'PX', ARGV[6])
    -- See acquire.lua.
    -- guard: tombstone_makes_a_crowd
    local crowd = now + (ARGV[6] + 1000) * 1000
    if crowd > tonumber(redis.call('HGET', KEYS[1], 'crowd') or 0) then
      redis.call('HSET', KEYS[1], 'crowd', text(crowd))
    end
  end
end
-- Beside readers only readers get in: if a writer before them gave up, or if the number of readers was at its limit. All
-- readers that were called before need no second call.
local shared = record and string.sub(record, 1, 32) == READERS
local called = not record and (mine or head_left)
-- guard: call_beside
called = called or shared and (writer_left or was_full)
-- guard: hand_over
if not refusal and called and redis.call('EXISTS', KEYS[3]) == 1 then
  local readers = 0
  while true do
    local head = redis.call('ZRANGE', KEYS[3], readers, readers)[1]
    if not head then break end
    local entry = redis.call('HGET', KEYS[4], head) or ''
    local ends, channel = string.match(entry, '^(%d+) (.*)$')
    ends = tonumber(ends or 0)
    -- An end more than one life ahead: the clock went back, and the entry may be long dead.
    -- guard: live_entry
    if ends > now and ends <= now + LIFE_US then
      -- A reader's entry: other readers may get in with it.
      -- guard: call_readers
      local reader = string.find(entry, '^0%d')
      -- guard: call_writer
      if not reader and (shared or readers > 0) then break end
      redis.call('HSET', KEYS[4], 'turn', (reader and READERS or head) .. ' ' .. text(now + TURN_US))
      redis.call('PUBLISH', channel, head)
      if not reader then break end
      readers = readers + 1
    else
      redis.call('ZREM', KEYS[3], head)
      redis.call('HDEL', KEYS[4], head)
    end
  end
end
return {'freed', text(now), mine and 1 or 0}
