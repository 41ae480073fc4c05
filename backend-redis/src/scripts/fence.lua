-- Sets the user's key if the token is not stale.
-- KEYS: 1 the fence's record   2 the user's key
-- args: token value
-- Answer: {1 or 0, the highest token admitted}. Tokens stay below 2^53, so numbers compare exactly.

local admitted = redis.call('GET', KEYS[1])
-- guard: fence | S2 | a_stale_write
if admitted and tonumber(admitted) > tonumber(token) then return {0, admitted} end
redis.call('SET', KEYS[1], token)
redis.call('SET', KEYS[2], value)
return {1, token}
