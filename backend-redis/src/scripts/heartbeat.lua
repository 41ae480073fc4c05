-- Hears of many places of one client, and says who holds their locks. It grants nothing, so it asks for no epoch. Where
-- it is not as simple, since the lock is free or ends before the next heartbeat, or the place is gone, the answer is -1,
-- and the place is heard of by acquire.lua.
-- KEYS: 1 epoch record, then the locks, then their places
-- ARGV: from 5 to the last but two the owner of each place: see epoch_arguments.lua
-- Answers, for each place: 'retry-ms remaining-ms owner token state label' of the holder, or -1. Or that of unknown.lua.

-- include unknown.lua
-- include limits.lua
local call, count, answers = redis.call, (#KEYS - 1) / 2, {}
local epoch = call('HMGET', KEYS[1], 'version', 'longest')
local refusal = unknown(epoch[1], epoch[2])
-- guard: heartbeat_version
if refusal then return refusal end
-- A write that changes nothing and needs no memory: the others are then carried out also on a full server.
-- guard: heartbeat_memory
call('HDEL', KEYS[1], '')
local time = call('TIME')
-- Of 16 digits, as in each place.
local life = time[1] + LIFE_US / 1000000 .. string.sub('00000' .. time[2], -6)
-- A key of another type has nil here.
local records = call('MGET', unpack(KEYS, 2, count + 1))
for at = 1, count do
  local lock, places, owner, answer = KEYS[1 + at], KEYS[1 + count + at], ARGV[4 + at], -1
  local record = records[at]
  if record then
    local left = call('PTTL', lock)
    local place = left > FAR_MS
      -- Only acquire.lua keeps the queue itself, which may live for 20 s less than the places.
      -- guard: heartbeat_queue_life
      and call('PTTL', places) > TOMB_MS * 2 / 3
      and call('HGET', places, owner)
    if place then
      -- guard: heartbeat_life
      call('HSET', places, owner, life .. string.sub(place, 17))
      answer = NEAR_MS .. ' ' .. left .. ' ' .. record
    end
  end
  answers[at] = answer
end
return answers
