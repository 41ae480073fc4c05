-- The state of some locks.
-- KEYS: 1 epoch record, then lock and queue of each
-- Answers: {record, remaining ms, number of entries} of each, and last the watermark; or that of
--       `unknown`. A record of another type is '', and so is the record if its queue is of
--       another type. Redlock's inspect.lua does the same.

-- include unknown
-- include records
local time = redis.call('TIME')
local answers, epoch = {}, redis.call('HMGET', KEYS[1], 'version', 'longest', 'mark')
local refusal = unknown(epoch[1], epoch[2])
if refusal then return refusal end
for at = 2, #KEYS, 2 do
  local record, entries = redis.pcall('GET', KEYS[at]), redis.pcall('LLEN', KEYS[at + 1])
  for _, answer in ipairs({record, entries}) do
    if type(answer) == 'table' then
      if not string.find(answer.err, 'WRONGTYPE', 1, true) then return answer end
      record = ''
    end
  end
  record = living(record, time[1] * 1000000 + time[2])
  local left = record and redis.call('PTTL', KEYS[at]) or 0
  answers[#answers + 1] = {record, left, type(entries) == 'number' and entries or 0}
end
answers[#answers + 1] = epoch[3] or '0'
return answers
