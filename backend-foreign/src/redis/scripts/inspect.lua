-- The states of some locks.
-- KEYS: 1 epoch record, then lock, note and last token of each
-- epoch args: kind
-- Answers: `state_of` for each, and last the µs since a foreign holder of any lock was seen, or '';
--       or that of `unknown`.
local epoch = redis.call('HMGET', KEYS[1], 'version', 'longest', 'mark', 'theirs')
local refusal = unknown(epoch[1], epoch[2])
if refusal then return refusal end
local answers, mark = {}, math.min(tonumber(epoch[3] or 0) or NO_TOKEN_LEFT, NO_TOKEN_LEFT)
for at = 2, #KEYS, 3 do answers[#answers + 1] = state_of(KEYS[at], KEYS[at + 1], KEYS[at + 2], mark) end
answers[#answers + 1] = epoch[4] and text(math.max(0, clock() - epoch[4])) or ''
return answers
