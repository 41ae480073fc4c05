-- The records of locks that readers share, and what a script reads of a record.
--
-- A lock that readers share: "READERS token 0 label", and on a second line for each reader a space,
-- its owner, a colon, and the end of its lease in ms of the server's clock. Each reader takes the
-- same number of bytes. So no pattern runs over all of them, since there may be a thousand. The
-- label is that of the reader that came last, and the key's expiry is that of the latest lease.
-- include readers_line.lua
-- include lease_end.lua
-- include read.lua
-- include parse.lua

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
