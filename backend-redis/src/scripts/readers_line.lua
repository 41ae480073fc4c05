local READERS, READER_BYTES = string.rep('0', 32), 47

-- The position before the first reader's space; nil if readers do not share the lock.
local function readers_line(record)
  return string.sub(record, 1, 32) == READERS and string.find(record, '\n', 1, true) or nil
end
