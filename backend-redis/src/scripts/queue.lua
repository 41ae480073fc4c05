-- The queue and its hand-over, and what readers share. epoch.lua, limits.lua and records.lua stand
-- before this text.
--
-- An entry is "until lease floor channel label". The floor of a reader's entry has a 0 in front.

-- How many readers share the lock with this record; nil if it is not shared.
local function readers(record)
  local line = record and readers_line(record)
  return line and parse(record) and (#record - line) / READER_BYTES
end

-- The position of a reader's owner in a record, after the space; nil if it is not there.
local function reader_position(record, owner)
  return readers(record) and string.find(record, owner, readers_line(record), true)
end

-- Whether `owner` holds the lock with this record, alone or with others.
local function holds(record, owner)
  -- guard: member
  return string.sub(record, 1, 32) == owner or reader_position(record, owner) ~= nil
end

-- As `hold`, over an existing record. The expiry is set first, since that needs no memory.
local function hold_anew(owner, token, state, label, ms)
  redis.call('PEXPIRE', KEYS[2], ms)
  return hold(owner, token, state, label, ms)
end

-- The token, also as text, of a reader that joins a group: the group's token, unless the reader's
-- floor is not below it. A new token if there is no group.
local function mint_for(token, now, mark, floor)
  -- guard: join_floor
  if token and token > floor then return token, text(token) end
  return mint(now, mark, floor)
end

-- Adds readers to those of `group`, or makes them the first readers if there is no group. Each of
-- `more` is a space, the owner, a colon and the end of its lease. The latest of these ends is in
-- `ms`.
local function share(group, more, token, label, ms)
  local others = group and string.sub(group, readers_line(group)) or '\n'
  -- guard: join_shorter
  if group then ms = math.max(ms, redis.call('PTTL', KEYS[2])) end
  local record = READERS .. ' ' .. text(token) .. ' 0 ' .. label .. others .. more
  redis.call('SET', KEYS[2], record, 'PX', ms)
  return record
end

-- Prolongs the lease of the owner, alone or among readers. It may be asked late, so it never
-- shortens a lease. It always writes: Valkey lets WAIT cover only what a call has written. The
-- expiry is set first, since that needs no memory.
local function prolong(record, owner, now, ms)
  -- guard: repeat_keeps
  local left = math.max(ms, redis.call('PTTL', KEYS[2]))
  -- guard: repeat_writes
  redis.call('PEXPIRE', KEYS[2], left)
  local at = reader_position(record, owner)
  if not at then return end
  local ends = string.sub(record, at + 33, at + 45)
  local later = lease_end(now, ms)
  -- guard: repeat_reader
  if later > ends then ends = later end
  redis.call('SET', KEYS[2], string.sub(record, 1, at + 32) .. ends .. string.sub(record, at + 46), 'PX', left)
end

-- Removes one reader from a group. Returns the rest of the record, or false if that was the last
-- reader and the lock is free.
local function leave(group, owner, now)
  local at = reader_position(group, owner)
  if readers(group) == 1 then
    redis.call('DEL', KEYS[2])
    return false
  end
  local rest = string.sub(group, 1, at - 2) .. string.sub(group, at + 46)
  local latest = '0'
  for from = readers_line(rest) + 1, #rest, READER_BYTES do
    local ends = string.sub(rest, from + 34, from + 46)
    if ends > latest then latest = ends end
  end
  -- guard: leave_end
  local left = math.max(1, latest - math.floor(now / 1000))
  -- The expiry is set first, since that needs no memory.
  redis.call('PEXPIRE', KEYS[2], left)
  -- guard: leave
  redis.call('SET', KEYS[2], rest, 'PX', left)
  return rest
end

-- Gives the free lock to the first live entry. If that is a reader's, the readers behind it get in
-- too, up to the first writer. If readers share the lock, `group` is their record, and only readers
-- get in. Returns the new record, or the given one if nobody gets in. The owner `asker` gets its
-- whole lease at once; any other owner gets a push, and has the claim window. The record is written
-- once, however many readers get in, and before the pushes: who is pushed believes.
local function hand_over(now, mark, asker, group)
  group = group or nil
  local count, longest_ms, more, pushes = group and readers(group) or 0, 0, {}, {}
  local _, token, _, label = parse(group)
  local record = group
  while true do
    local owner
    if count > 0 then owner = redis.call('LINDEX', KEYS[3], 0) else owner = redis.call('LPOP', KEYS[3]) end
    if not owner then break end
    local entry = redis.call('HGET', KEYS[4], owner)
    local until_, lease, floor, channel, own_label =
      string.match(entry or '', '^(%d+) (%d+) (%d+) (%S+) (.*)$')
    until_ = tonumber(until_)
    -- An end more than one life ahead: the clock went back, and the entry may be long dead.
    -- guard: dead_entry
    if until_ and not (until_ > now and until_ <= now + LIFE_US) then until_ = nil end
    local reader = until_ and is_reader(floor)
    if count > 0 then
      -- guard: writer_first
      if until_ and not (reader and count < MOST_READERS) then break end
      redis.call('LPOP', KEYS[3])
    end
    redis.call('HDEL', KEYS[4], owner)
    if until_ then
      -- guard: entry_floor
      local own_token, shown = mint_for(token, now, mark, tonumber(floor))
      if not own_token then break end
      token, label = own_token, own_label
      local mine = owner == asker
      local ms = mine and tonumber(lease) or CLAIM_MS
      if not mine then pushes[#pushes + 1] = {channel, owner .. ' ' .. shown .. ' ' .. CLAIM_MS} end
      if not reader then
        -- guard: claim
        record = hold(owner, shown, mine and '0' or '2', label, ms)
        break
      end
      count, longest_ms = count + 1, math.max(longest_ms, ms)
      more[#more + 1] = ' ' .. owner .. ':' .. lease_end(now, ms)
    end
  end
  if more[1] then record = share(group, table.concat(more), token, label, longest_ms) end
  for _, push in ipairs(pushes) do
    local sharded = string.find(push[1], '}:spush:', 1, true)
    redis.call(sharded and 'SPUBLISH' or 'PUBLISH', push[1], push[2])
  end
  return record
end

local function entry_of(lease, floor, channel, label) return table.concat({lease, floor, channel, label}, ' ') end

-- Puts an entry at the end of the queue, or prolongs the entry that exists. With `entry` nil it
-- only prolongs. Returns nil if there is no entry, true for an old one, or the position of a new
-- one.
local function keep_entry(now, owner, entry)
  local known = redis.call('HGET', KEYS[4], owner)
  if not known and not entry then return nil end
  -- First, since this write needs no memory.
  if known then redis.call('PEXPIRE', KEYS[4], TOMB_MS) end
  -- A repeat has the same request, and so the same entry.
  entry = entry or string.match(known, '^%d+ (.*)$') or ''
  local number = true
  if redis.call('HSET', KEYS[4], owner, text(now + LIFE_US) .. ' ' .. entry) == 1 then
    number = redis.call('RPUSH', KEYS[3], owner)
  end
  -- Both keys live much longer than an entry. They expire by themselves if nobody uses them.
  if redis.call('PTTL', KEYS[3]) < TOMB_MS / 2 then
    redis.call('PEXPIRE', KEYS[3], TOMB_MS)
    redis.call('PEXPIRE', KEYS[4], TOMB_MS)
  end
  return number
end

-- {'busy', owner ('?' if the record cannot be read), label, remaining ms, token, retry ms, 1 if the
-- asker has an entry}. `record` is the present one, and `queued` the result of `keep_entry` for the
-- asker.
local function busy(asker, queued, mark, record)
  local owner, token, _, label = parse(record)
  local left = record and redis.call('PTTL', KEYS[2]) or 0
  if left == -1 then
    -- No record of this store stays for ever. Whatever this one is, no lease is longer than this.
    left = math.ceil(longest / 1000)
    redis.call('PEXPIRE', KEYS[2], left)
  end
  local near = not queued or queued ~= true and queued <= NEAR
    or queued == true and redis.call('LPOS', KEYS[3], asker, 'MAXLEN', NEAR)
  -- A client near the head asks again when the lease ends, since the holder may have crashed.
  local retry = near and math.max(1, math.min(NEAR_MS, left + 1)) or FAR_MS
  return {'busy', owner or record and '?' or '', label or '', left, text(token or mark), retry, queued and 1 or 0}
end
