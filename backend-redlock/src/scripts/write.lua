-- Raises the number of a lock on one node, while the asker still holds it there, and never lowers
-- it. The rule is that of `takes_write_back` in token.rs.
-- KEYS: 1 epoch record   2 lock.
-- args: owner wanted watermark lead
--       wanted: a number. watermark: which one. lead: how far it may lead the clock, µs, or ''
-- Answer: {'written', clock, 1} if the asker holds the lock and the lock has at least this number
--       now, otherwise {'written', clock, 0}; {'floor', clock, the highest allowed}; or that of
--       `unknown` of backend-redis
-- include unknown
local refusal = unknown(unpack(redis.call('HMGET', KEYS[1], 'version', 'longest')))
if refusal then return refusal end
local time = redis.call('TIME')
local now, number = time[1] * 1000000 + time[2], tonumber(wanted)
local stamp = string.format('%.0f', now)
-- guard: write_lead | S2 | a_raise_far_ahead | if false then
if lead ~= '' and number > now + lead then
  return {'floor', stamp, string.format('%.0f', now + lead)}
end
local record = redis.call('GET', KEYS[2]) or ''
local whose, own, state, rest = string.match(record, '^(%x+) (%d+) (%d) ()')
rest = rest and string.sub(record, rest)
local holder, first = whose, wanted
local from = whose == string.rep('0', 32) and string.find(rest, '\n' .. owner .. ' ', 1, true)
if from then
  -- Each reader has its own line in the record. The first line has the highest of their numbers:
  -- see acquire.lua.
  if tonumber(own) > number then first = own end
  local mine, to = string.match(rest, '^(%d+)()', from + 34)
  holder, own = owner, mine
  -- guard: write_reader | S2 | a_number_for_a_reader
  rest = string.sub(rest, 1, from + 33) .. wanted .. string.sub(rest, to)
end
-- guard: write_owner | S4 | a_raise_by_another
-- guard: write_kept | S4 | a_raise_of_what_is_kept
if holder ~= owner or state ~= '0' then return {'written', stamp, 0} end
-- guard: write_rises | S2 | a_raise_to_less | if true then
if number > tonumber(own) then
  local left = math.max(1, redis.call('PTTL', KEYS[2]))
  -- The expiry is set first, since that needs no memory: see epoch.lua of backend-redis.
  redis.call('PEXPIRE', KEYS[2], left)
  redis.call('SET', KEYS[2], table.concat({whose, first, state, rest}, ' '), 'PX', left)
  if number > tonumber(redis.call('HGET', KEYS[1], watermark) or 0) then
    -- guard: write_notes_mark | S2 | a_raised_token_is_exceeded_by_the_next
    redis.call('HSET', KEYS[1], watermark, wanted)
    if number > tonumber(redis.call('HGET', KEYS[1], 'top') or 0) then
      -- guard: write_notes_top | S2 | a_batch_after_a_number_far_ahead(written)
      redis.call('HSET', KEYS[1], 'top', wanted)
    end
  end
end
return {'written', stamp, 1}
