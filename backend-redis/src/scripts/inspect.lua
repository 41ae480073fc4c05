-- What is known of some locks.
-- KEYS: 1 epoch record, then lock and queue of each. Answers: {record, remaining ms, places} of each,
-- and last the watermark. A record of another type is '', and so is that of a queue that is none.
local answers = {}
for at = 2, #KEYS, 2 do
  local record, places = redis.pcall('GET', KEYS[at]), redis.pcall('LLEN', KEYS[at + 1])
  for _, answer in ipairs({record, places}) do
    if type(answer) == 'table' then
      if not string.find(answer.err, 'WRONGTYPE', 1, true) then return answer end
      record = ''
    end
  end
  local left = record and redis.call('PTTL', KEYS[at]) or 0
  answers[#answers + 1] = {record, left, type(places) == 'number' and places or 0}
end
answers[#answers + 1] = redis.call('HGET', KEYS[1], 'mark') or '0'
return answers
