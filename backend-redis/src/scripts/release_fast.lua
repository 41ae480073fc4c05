-- The common cases of release.lua, in front of it: nobody waits but, at most, the same process. Any
-- doubt goes the long way. KEYS and ARGV are those of release.lua. Answers are plain numbers.
if redis.call('EXISTS', KEYS[3]) == 0 then
  local record = redis.call('GET', KEYS[2])
  local mine = record and string.sub(record, 1, 32) == ARGV[5]
  if #ARGV == 6 then
    -- It grants nothing, so it asks for no epoch.
    if mine then redis.call('DEL', KEYS[2]) end
    return mine and 1 or 0
  end
  if mine and ARGV[6] == '' and ARGV[7] ~= '' and redis.call('EXISTS', KEYS[5]) == 0 then
    local token = take(ARGV[7], ARGV[9], ARGV[8], ARGV[10])
    if token then return token end
  end
end
