-- The store's name, made by the first client that asks. It is lost with the data.
-- KEYS: 1 epoch record
-- args: name
--       a random one
-- Answer: the name, or that of `unknown`.

-- include unknown
local id, version, longest = unpack(redis.call('HMGET', KEYS[1], 'id', 'version', 'longest'))
local refusal = unknown(version, longest)
if refusal then return refusal end
if id then return id end
redis.call('HSET', KEYS[1], 'id', name)
return name
