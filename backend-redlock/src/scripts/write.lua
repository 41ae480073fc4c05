-- Raises the number of a lock on one node, while the asker still holds it there, and never lowers it. The rule is that of
-- `takes_write_back` in token.rs.
-- KEYS: 1 epoch record   2 lock.
-- ARGV: 1 owner   2 number   3 which watermark   4 how far it may lead the clock, µs, or ''
-- Answer: {'written', clock, 1} if the asker holds the lock and the lock has at least this number now, otherwise
-- {'written', clock, 0}; {'floor', clock, the highest allowed}; or that of unknown.lua of backend-redis
-- include unknown.lua
local refusal = unknown(unpack(redis.call('HMGET', KEYS[1], 'version', 'longest')))
if refusal then return refusal end
local time = redis.call('TIME')
local now, number = time[1] * 1000000 + time[2], tonumber(ARGV[2])
local stamp = string.format('%.0f', now)
-- guard: write_lead
if ARGV[4] ~= '' and number > now + ARGV[4] then
  return {'floor', stamp, string.format('%.0f', now + ARGV[4])}
end
local record = redis.call('GET', KEYS[2]) or ''
local whose, own, state, rest = string.match(record, '^(%x+) (%d+) (%d) ()')
rest = rest and string.sub(record, rest)
local owner, first = whose, ARGV[2]
local from = whose == string.rep('0', 32) and string.find(rest, '\n' .. ARGV[1] .. ' ', 1, true)
if from then
  -- Each reader has its own line in the record. The first line has the highest of their numbers: see acquire.lua.
  if tonumber(own) > number then first = own end
  local mine, to = string.match(rest, '^(%d+)()', from + 34)
  owner, own = ARGV[1], mine
  -- guard: write_reader
  rest = string.sub(rest, 1, from + 33) .. ARGV[2] .. string.sub(rest, to)
end
-- guard: write_owner
if owner ~= ARGV[1] or state ~= '0' then return {'written', stamp, 0} end
-- guard: write_rises
if number > tonumber(own) then
  local left = math.max(1, redis.call('PTTL', KEYS[2]))
  -- The expiry is set first, since that needs no memory: see common.lua of backend-redis.
  redis.call('PEXPIRE', KEYS[2], left)
  redis.call('SET', KEYS[2], table.concat({whose, first, state, rest}, ' '), 'PX', left)
  if number > tonumber(redis.call('HGET', KEYS[1], ARGV[3]) or 0) then
    -- guard: write_notes_mark
    redis.call('HSET', KEYS[1], ARGV[3], ARGV[2])
    if number > tonumber(redis.call('HGET', KEYS[1], 'top') or 0) then
      -- guard: write_notes_top
      redis.call('HSET', KEYS[1], 'top', ARGV[2])
    end
  end
end
return {'written', stamp, 1}
