-- part: holders
-- Who holds a lock: one owner, or readers that share it. records.lua stands before this text.

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
  -- guard: member | S1 | readers_share_and_exclude_writers | return true
  return string.sub(record, 1, 32) == owner or reader_position(record, owner) ~= nil
end

-- Writes the record of a lock; the token is text.
local function hold(owner, token, state, label, ms)
  local record = owner .. ' ' .. token .. ' ' .. state .. ' ' .. label
  redis.call('SET', KEYS[2], record, 'PX', ms)
  return record
end

-- As `hold`, over an existing record. The expiry is set first, since that needs no memory.
local function hold_anew(owner, token, state, label, ms)
  redis.call('PEXPIRE', KEYS[2], ms)
  return hold(owner, token, state, label, ms)
end

-- Adds readers to those of `group`, or makes them the first readers if there is no group. `more`
-- has owner and lease of each. The latest of these leases is `ms`.
local function share(group, more, token, label, ms, now)
  local first = READERS .. ' ' .. string.format('%.0f', token) .. ' 0 ' .. label
  local record = {first, group and string.sub(group, readers_line(group)) or '\n'}
  for _, reader in ipairs(more) do
    record[#record + 1] = ' ' .. reader[1] .. ':' .. lease_end(now, reader[2])
  end
  record = table.concat(record)
  -- guard: join_shorter | S1 | a_reader_with_a_short_lease
  if group then ms = math.max(ms, redis.call('PTTL', KEYS[2])) end
  redis.call('SET', KEYS[2], record, 'PX', ms)
  return record
end

-- Prolongs the lease of the owner, alone or among readers. It may be asked late, so it never
-- shortens a lease. It always writes: Valkey lets WAIT cover only what a call has written. The
-- expiry is set first, since that needs no memory.
local function prolong(record, owner, now, ms)
  -- guard: repeat_keeps | S3 | a_repeat_by_the_owner_is_the_same_grant | local left = ms
  local left = math.max(ms, redis.call('PTTL', KEYS[2]))
  -- guard: repeat_writes | S1 | a_call_that_needs_no_longer_lease(repeat)
  redis.call('PEXPIRE', KEYS[2], left)
  local at = reader_position(record, owner)
  if not at then return end
  local ends = string.sub(record, at + 33, at + 45)
  local later = lease_end(now, ms)
  -- guard: repeat_reader | S3 | a_reader_whose_lease_is_prolonged(repeat)
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
  -- guard: leave_end | L1 | a_long_lease_that_left |
  --   local left = math.max(1, redis.call('PTTL', KEYS[2]))
  local left = math.max(1, latest - math.floor(now / 1000))
  -- The expiry is set first, since that needs no memory.
  redis.call('PEXPIRE', KEYS[2], left)
  -- guard: leave | S5 | a_reader_that_left_renews_nothing
  redis.call('SET', KEYS[2], rest, 'PX', left)
  return rest
end
