-- The entries of the queue: each is "until mode lease floor channel label", in Redlock "until mode
-- channel". The mode is r for a reader and w for a writer.

-- part: is_reader
-- Whether an entry of Redlock is a reader's.
local function is_reader(entry) return string.find(entry, '^%d+ r ') ~= nil end

-- part: entries
-- tunables.lua stands before this text.

local function entry_of(mode, lease, floor, channel, label)
  return table.concat({mode == 'r' and 'r' or 'w', lease, floor, channel, label}, ' ')
end

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
  if redis.call('HSET', KEYS[4], owner, string.format('%.0f', now + LIFE_US) .. ' ' .. entry) == 1 then
    number = redis.call('RPUSH', KEYS[3], owner)
  end
  -- Both keys live much longer than an entry. They expire by themselves if nobody uses them.
  if redis.call('PTTL', KEYS[3]) < TOMB_MS / 2 then
    redis.call('PEXPIRE', KEYS[3], TOMB_MS)
    redis.call('PEXPIRE', KEYS[4], TOMB_MS)
  end
  return number
end
