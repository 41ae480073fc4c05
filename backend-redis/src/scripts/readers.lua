-- A lock that readers share: "READERS token 0 label", and on a second line for each reader a space, its owner, a colon, and
-- the end of its lease in ms of the server's clock. Each reader takes the same number of bytes. So no pattern runs over all
-- of them, since there may be a thousand. The label is that of the reader that came last, and the key's expiry is that of
-- the latest lease.
local READERS, READER_BYTES = string.rep('0', 32), 47

-- The end of a lease of so many ms from `now`. Ends have 13 digits, so they compare as texts.
local function lease_end(now, ms) return string.format('%013.0f', math.floor(now / 1000) + ms) end

-- The position before the first reader's space; nil if readers do not share the lock.
local function readers_line(record)
  return string.sub(record, 1, 32) == READERS and string.find(record, '\n', 1, true) or nil
end

-- A record without the readers whose leases are over; false if none is left. Any other record is returned as it is.
local function living(key, record, now)
  local line = record and readers_line(record)
  if not line then return record end
  -- A client from before each reader had an end wrote it. Nobody's lease is longer than that of the key.
  if string.sub(record, line + 34, line + 34) ~= ':' then
    local latest = lease_end(now, redis.call('PTTL', key))
    return string.sub(record, 1, line) .. string.gsub(string.sub(record, line + 1), '%x+', '%0:' .. latest)
  end
  local first, kept = lease_end(now, 0), nil
  for at = line + 1, #record, READER_BYTES do
    -- guard: reader_ended
    local over = string.sub(record, at + 34, at + 46) < first
    if over and not kept then kept = {string.sub(record, 1, at - 1)} end
    if kept and not over then kept[#kept + 1] = string.sub(record, at, at + 46) end
  end
  if not kept then return record end
  record = table.concat(kept)
  return #record > line and record
end
