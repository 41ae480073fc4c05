-- The store's name, made at the first question. It goes with the data.
-- KEYS: 1 epoch record. ARGV: 1 a random name
local id = redis.call('HMGET', KEYS[1], 'id')[1]
if id then return id end
redis.call('HSET', KEYS[1], 'id', ARGV[1])
return ARGV[1]
