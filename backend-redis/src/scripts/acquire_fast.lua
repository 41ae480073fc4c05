-- The common case of acquire.lua, in front of it, since to define functions costs more than to take a
-- free lock: neither a record, a queue nor a tombstone is in the way. Any doubt goes the long way. KEYS
-- and ARGV are those of acquire.lua. The answer is the token as a plain number: a table would cost the
-- server a buffer of its own.
if redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[5]) == 0 then
  local token = take(ARGV[5], ARGV[7], ARGV[6], ARGV[8])
  if token then return token end
end
