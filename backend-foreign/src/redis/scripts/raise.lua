-- Raises the token of a held grant.
-- KEYS: as in shared.lua
-- epoch args: kind owner wanted last_token_life
--       last_token_life: as in acquire.lua
-- Answer: {'raised'}, {'gone'} or {'floor', highest}; or that of `unknown`.
local refusal = unknown(unpack(redis.call('HMGET', KEYS[1], 'version', 'longest')))
if refusal then return refusal end
wanted = tonumber(wanted)
local noted, token, state, label = parse(read(KEYS[2]))
-- guard: raise_owner | S4 | a_raise_by_another
if noted ~= owner or not is_ours(KEYS[6], owner) then return {'gone'} end
-- guard: raise_kept | S4 | a_raise_of_what_is_kept
if state == '1' then return {'gone'} end
local now = clock()
-- guard: raise_limit | S2 | a_raise_far_ahead
if wanted > now + longest then return {'floor', text(now + longest)} end
-- guard: raise_only | S2 | a_raise_to_less | if true then
if wanted > token then
  local left = math.max(1, redis.call('PTTL', KEYS[6]))
  redis.call('PEXPIRE', KEYS[2], left)
  redis.call('SET', KEYS[2], table.concat({owner, text(wanted), state, label}, ' '), 'PX', left)
  redis.call('SET', KEYS[4], text(math.max(wanted, last_token(KEYS[4]))))
  if last_token_life == 'ends' then
    redis.call('PEXPIRE', KEYS[4], math.ceil(math.max(0, wanted - now) / 1000) + TOMB_MS)
  end
  if wanted > tonumber(redis.call('HGET', KEYS[1], 'mark') or 0) then
    -- guard: raise_mark | S2 | a_token_after_a_raise
    redis.call('HSET', KEYS[1], 'mark', text(wanted))
  end
end
return {'raised'}
