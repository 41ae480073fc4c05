-- acquire_fast
-- The common case of acquire.lua, in front of it, since to define functions costs more than to take a
-- free lock: neither a record, a queue nor a tombstone is in the way. Any doubt goes the long way. KEYS
-- and ARGV are those of unpack_acquire.lua. The answer is the token alone: a table would cost the
-- server a buffer of its own.
if redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[5]) == 0 then
  local token = take(ARGV[3], ARGV[5], ARGV[4], ARGV[6])
  if token then return token end
end
