-- release_next
-- The same where the process's own next request comes along: it gets the lock at once, and its token is the answer.
if is_free and mine and ARGV[4] == '' and ARGV[5] ~= '' and redis.call('EXISTS', KEYS[5]) == 0 then
  local token = take(ARGV[5], ARGV[7], ARGV[6], ARGV[8])
  if token then return token end
end
