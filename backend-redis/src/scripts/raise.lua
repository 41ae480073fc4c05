-- Lifts the token of a held grant.
-- ARGV: 5 owner   6 token
local owner, token, state, label = parse(read(KEYS[2]))
if owner ~= ARGV[5] or state == '1' then return {'gone'} end
local now, wanted = clock(), tonumber(ARGV[6])
if wanted > now + tonumber(ARGV[3]) then return {'floor', text(now + tonumber(ARGV[3]))} end
if wanted > token then
  hold_anew(owner, wanted, state, label, math.max(1, redis.call('PTTL', KEYS[2])))
  if wanted > tonumber(redis.call('HGET', KEYS[1], 'mark') or 0) then
    redis.call('HSET', KEYS[1], 'mark', text(wanted))
  end
end
return {'raised'}
