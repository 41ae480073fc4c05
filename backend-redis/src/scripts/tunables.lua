-- part: tunables
-- Promises of the client rest on these numbers: `expiry_slack` and `dead_waiter_delay` of its
-- guarantees, and how late an attempt may be. In order: how long the lock of a handoff may stay
-- unclaimed; when a refused client asks again, near the head of the queue and far from it; how long
-- an entry lives without a heartbeat, in whole seconds; how long tombstones and queues are kept;
-- how many readers share a lock (`Mode::MOST_READERS`).
local CLAIM_MS = 2000
local NEAR, NEAR_MS, FAR_MS = 8, 800, 1250
local LIFE_US = 3000000
local TOMB_MS = 60000
local MOST_READERS = 1000
