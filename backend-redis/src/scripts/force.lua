-- Frees a lock whoever holds it, and hands it to the first live place.
if redis.call('DEL', KEYS[2]) == 0 then return 0 end
local now = clock()
local mark = redis.call('EXISTS', KEYS[3]) == 1 and gate(now)
if mark then try(pass_on, now, mark) end
return 1
