-- The records of locks that readers share, and what a script reads of a record.
--
-- A lock that readers share: "READERS token 0 label", and on a second line for each reader a space,
-- its owner, a colon, and the end of its lease in ms of the server's clock. Each reader takes the
-- same number of bytes. So no pattern runs over all of them, since there may be a thousand. The
-- label is that of the reader that came last, and the key's expiry is that of the latest lease.

-- part: readers_line
local READERS, READER_BYTES = string.rep('0', 32), 47

-- The position before the first reader's space; nil if readers do not share the lock.
local function readers_line(record)
  return string.sub(record, 1, 32) == READERS and string.find(record, '\n', 1, true) or nil
end

-- part: lease_end
-- The end of a lease of so many ms from `now`. Ends have 13 digits, so they compare as texts.
local function lease_end(now, ms) return string.format('%013.0f', math.floor(now / 1000) + ms) end

-- part: read
-- The value of a lock's key. A key of another type counts as a record that cannot be read: ''.
local function read(key)
  local record = redis.pcall('GET', key)
  if type(record) ~= 'table' then return record end
  if not string.find(record.err, 'WRONGTYPE', 1, true) then error(record) end
  return ''
end

-- part: parse
-- The parts of a record; nil if it cannot be read. Such a record belongs to no owner, and holds the
-- lock until it expires.
local function parse(record)
  local owner, token, state, label = string.match(record or '', '^(%x+) (%d+) ([012]) ([^\n]*)')
  if not owner or #owner ~= 32 or tonumber(token) > 9007199254740991 then return nil end
  return owner, tonumber(token), state, label
end

-- part: records
-- include readers_line
-- include lease_end
-- include read
-- include parse

-- A record without the readers whose leases are over; false if none is left. Any other record is
-- returned as it is.
local function living(record, now)
  local line = record and readers_line(record)
  if not line then return record end
  local first, kept = lease_end(now, 0), nil
  for at = line + 1, #record, READER_BYTES do
    -- guard: reader_ended | L1 | a_reader_that_died | local over = false
    local over = string.sub(record, at + 34, at + 46) < first
    if over and not kept then kept = {string.sub(record, 1, at - 1)} end
    if kept and not over then kept[#kept + 1] = string.sub(record, at, at + 46) end
  end
  if not kept then return record end
  record = table.concat(kept)
  return #record > line and record
end
