-- The state of some locks on one node.
-- KEYS: 1 epoch record, then lock and queue of each.
-- Answer: {'seen', clock, {record or false, remaining ms, number of entries} of each}. A record of
--       another type is '', and so is the record if its queue is of another type. Or the answer of
--       `unknown` of backend-redis
-- include unknown
local refusal = unknown(unpack(redis.call('HMGET', KEYS[1], 'version', 'longest')))
if refusal then return refusal end
local time, answers = redis.call('TIME'), {}
for at = 2, #KEYS, 2 do
  local record, entries = redis.pcall('GET', KEYS[at]), redis.pcall('ZCARD', KEYS[at + 1])
  for _, answer in ipairs({record, entries}) do
    if type(answer) == 'table' then
      if not string.find(answer.err, 'WRONGTYPE', 1, true) then return answer end
      record = ''
    end
  end
  local left = record and redis.call('PTTL', KEYS[at]) or 0
  answers[#answers + 1] = {record, left, type(entries) == 'number' and entries or 0}
end
return {'seen', string.format('%.0f', time[1] * 1000000 + time[2]), answers}
