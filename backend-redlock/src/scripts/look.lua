-- What one node knows of some locks.
-- KEYS: lock and queue of each.
-- Answer: {'seen', clock, {record or false, remaining ms, places} of each}
local time, answers = redis.call('TIME'), {}
for at = 1, #KEYS, 2 do
  local record = redis.call('GET', KEYS[at])
  local left = record and redis.call('PTTL', KEYS[at]) or 0
  answers[#answers + 1] = {record, left, redis.call('ZCARD', KEYS[at + 1])}
end
return {'seen', string.format('%.0f', time[1] * 1000000 + time[2]), answers}
