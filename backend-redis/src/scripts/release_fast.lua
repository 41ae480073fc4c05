-- release_fast
-- The common case of release.lua, in front of it: nobody waits, and nothing is asked for besides. Any doubt
-- goes the long way. KEYS and ARGV are those of unpack_release.lua. The answer is a plain number.
local is_free = redis.call('EXISTS', KEYS[3]) == 0
local record = redis.pcall('GET', KEYS[2])
-- A key of another type is an error.
local mine = type(record) == 'string' and string.sub(record, 1, 32) == ARGV[3]
if is_free and #ARGV == 3 and type(record) ~= 'table' then
  -- It grants nothing, so it asks for no epoch.
  if mine then redis.call('DEL', KEYS[2]) end
  return mine and 1 or 0
end
