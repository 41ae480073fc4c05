-- Promises of the client rest on these numbers: `expiry_slack` and `dead_waiter_delay` of its guarantees, and how late an
-- attempt may be. In order: how long a handed-over lock may stay unclaimed; when an entry sends its heartbeat; how many
-- entries at the head of the queue ask again when the lease ends, if that is sooner; how long an entry lives without a
-- heartbeat, in whole seconds; how long tombstones and queues are kept; how many readers share a lock
-- (`Mode::MOST_READERS`).
-- In a claim window there is time for a heartbeat, and for the attempt that follows it.
local CLAIM_MS = 2000
local HEARTBEAT_MS = 1250
local NEAR = 8
local LIFE_US = 3000000
local TOMB_MS = 60000
local MOST_READERS = 1000
