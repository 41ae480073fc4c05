-- Reads the record of a name.
-- KEYS: 1 epoch record   2 record
-- Answer: {record or false, now, µs since when none was lost}, or that of unknown.lua. If the epoch
--       record is not of this run and data, nobody has noticed the loss yet: since now.

-- include unknown.lua
-- include text.lua
-- include clock.lua
-- include read.lua
-- include server_change.lua
local now = clock()
local version, longest, last_run, last_replid, from, since = unpack(redis.call(
  'HMGET', KEYS[1], 'version', 'longest', 'run', 'replid', 'from', 'since'))
local refusal = unknown(version, longest)
if refusal then return refusal end
local run, replid = identity()
-- guard: read_epoch
if not (from and last_run == run and last_replid == replid) then since = nil end
return {read(KEYS[2]), text(now), text(tonumber(since or now) or now)}
