-- Frees the lock of any holder, also of a foreign one.
-- KEYS: as in shared.lua
-- epoch args: kind wake channel message
-- Answer: 1 if something was removed, otherwise 0; or that of `unknown`.
local refusal = unknown(unpack(redis.call('HMGET', KEYS[1], 'version', 'longest')))
if refusal then return refusal end
local key_type = redis.call('TYPE', KEYS[6]).ok
-- A key of another type is not a lock of this layout. It may be other data.
-- guard: force_type | S4 | force_on_other_data
if key_type ~= (kind == 'hash' and 'hash' or 'string') then return 0 end
redis.call('DEL', KEYS[3])
free(wake, channel, message)
return 1
