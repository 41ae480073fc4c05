-- Frees a lock of any holder, and hands it to the first live entry. It also removes keys of another
-- type, which cannot be read: such a queue or such entries would make every attempt fail.
-- KEYS: as in epoch.lua
-- epoch args:
-- Answer: 1 if something was removed, otherwise 0; or that of `unknown`.

-- include epoch
-- include handoff
local refusal = unknown(unpack(redis.call('HMGET', KEYS[1], 'version', 'longest')))
if refusal then return refusal end
local removed = redis.call('DEL', KEYS[2])
for at, answer in pairs({[3] = redis.pcall('LLEN', KEYS[3]), [4] = redis.pcall('HGET', KEYS[4], '')}) do
  if type(answer) == 'table' and string.find(answer.err, 'WRONGTYPE', 1, true) then
    removed = removed + redis.call('DEL', KEYS[at])
  end
end
if removed == 0 then return 0 end
local now = clock()
-- guard: force_epoch | S1 | a_handoff_after_a_restart(force) |
--   local mark = redis.call('EXISTS', KEYS[3])
local mark = redis.call('EXISTS', KEYS[3]) == 1 and gate(now)
if type(mark) == 'number' then
  local done, result = pcall(hand_off, now, mark)
  if not done then
    -- include forgive
  end
end
return 1
