-- What is known of some locks.
-- KEYS: 1 epoch record, then lock and queue of each. Answers: {record, remaining ms, places} of each,
-- and last the watermark.
local answers = {}
for at = 2, #KEYS, 2 do
  local record = redis.call('GET', KEYS[at])
  local left = record and redis.call('PTTL', KEYS[at]) or 0
  answers[#answers + 1] = {record, left, redis.call('LLEN', KEYS[at + 1])}
end
answers[#answers + 1] = redis.call('HGET', KEYS[1], 'mark') or '0'
return answers
