-- Frees a lock whoever holds it, and hands it to the first live place. It removes what cannot be read, too: of
-- another type, a queue or its places would fail every attempt.
local removed = redis.call('DEL', KEYS[2])
for at, answer in pairs({[3] = redis.pcall('LLEN', KEYS[3]), [4] = redis.pcall('HGET', KEYS[4], '')}) do
  if type(answer) == 'table' and string.find(answer.err, 'WRONGTYPE', 1, true) then
    removed = removed + redis.call('DEL', KEYS[at])
  end
end
if removed == 0 then return 0 end
local now = clock()
local mark = redis.call('EXISTS', KEYS[3]) == 1 and gate(now)
if mark then try(pass_on, now, mark) end
return 1
