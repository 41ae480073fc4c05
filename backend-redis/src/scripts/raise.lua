-- Raises the token of a held grant.
-- KEYS: as in epoch.lua
-- epoch args: raiser wanted
-- Answer: {'raised'}, {'gone'} or {'floor', highest}; or that of `unknown`.

-- include epoch
-- include records
-- include holders
local refusal = unknown(unpack(redis.call('HMGET', KEYS[1], 'version', 'longest')))
if refusal then return refusal end
wanted = tonumber(wanted)
local now = clock()
local record = living(read(KEYS[2]), now)
local _, token, state, label = parse(record)
-- guard: raise_owner | S4 | a_raise_by_another
if not (record and holds(record, raiser)) then return {'gone'} end
-- guard: raise_kept | S5 | a_raise_of_what_is_kept
if state == '1' then return {'gone'} end
local highest = now + longest
-- guard: raise_limit | S2 | a_raise_far_ahead
if wanted > highest then return {'floor', text(highest)} end
-- guard: raise_only | S2 | a_raise_to_less | if true then
if wanted > token then
  local raised = string.gsub(record, '^(%x+) %d+', '%1 ' .. text(wanted))
  local left = math.max(1, redis.call('PTTL', KEYS[2]))
  redis.call('PEXPIRE', KEYS[2], left)
  redis.call('SET', KEYS[2], raised, 'PX', left)
  if wanted > tonumber(redis.call('HGET', KEYS[1], 'mark') or 0) then
    -- guard: raise_mark | S2 | a_raised_token_is_exceeded_by_the_next
    redis.call('HSET', KEYS[1], 'mark', text(wanted))
  end
end
return {'raised'}
