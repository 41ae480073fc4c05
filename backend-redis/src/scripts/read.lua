-- The value of a lock's key. A key of another type counts as a record that cannot be read: ''.
local function read(key)
  local record = redis.pcall('GET', key)
  if type(record) ~= 'table' then return record end
  if not string.find(record.err, 'WRONGTYPE', 1, true) then error(record) end
  return ''
end
