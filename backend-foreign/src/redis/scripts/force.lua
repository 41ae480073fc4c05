-- Frees a lock of any holder, also of the other library.
-- KEYS: as in shared.lua. ARGV: as there, and 6 wake   7 channel   8 message
-- Answer: 1 if something was removed, otherwise 0; or that of unknown.lua.
local refusal = unknown(unpack(redis.call('HMGET', KEYS[1], 'version', 'longest')))
if refusal then return refusal end
local kept_as = redis.call('TYPE', KEYS[6]).ok
-- A key of another type is no lock of this layout, and may be anybody's data.
-- guard: force_type
if kept_as ~= (kind == 'hash' and 'hash' or 'string') then return 0 end
redis.call('DEL', KEYS[3])
free(ARGV[6], ARGV[7], ARGV[8])
return 1
