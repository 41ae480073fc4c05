-- The common case of release.lua, in front of it: nothing to keep, no next request, nobody waiting.
-- It grants nothing, so it asks for no epoch. KEYS and ARGV are those of release.lua.
if ARGV[6] == '' and ARGV[7] == '' and redis.call('EXISTS', KEYS[3]) == 0 then
  local record = redis.call('GET', KEYS[2])
  if not record or string.sub(record, 1, 32) ~= ARGV[5] then return {0, false} end
  redis.call('DEL', KEYS[2])
  return {1, false}
end
