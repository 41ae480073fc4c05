-- The functions of scripts that may grant: the checks of the epoch and of the request, and the
-- token. Times are microseconds of the server's clock. Numbers that may be large are always
-- formatted with %.0f, since Lua's own format loses digits from 1e14 on.
--
-- Memory: if a server has reached its maxmemory, it refuses the first write of a script if that
-- write may need memory (SET, HSET, RPUSH), and no write after it. A first write that changes
-- nothing counts too. So every script frees or shortens first (DEL, HDEL, LPOP, PEXPIRE), and
-- writes more after that. So also on a full server a held lock can be renewed, claimed, released
-- and granted to waiters. Only a new grant or a new entry begins with a write that may be refused.
--
-- Speed: each call makes all functions that it passes, and each costs the server as much as one or
-- two arguments. So the rules of the common cases are texts without functions, which stand in the
-- middle of a script or of a function: check_epoch.lua, check_request.lua, make_token.lua and
-- grant.lua. What only a rare branch needs is included in that branch.
--
-- KEYS: 1 epoch record   2 lock   3 queue (list of owners)   4 entries (hash by owner)
--       5 tombstone
-- The first arguments of each script that may grant (text.rs makes them local variables):
--   run, replid   run id and replication id of the server, from the last handshake on this
--                 connection
--   longest       the longest lease, as this client knows it, as text
--   quarantine    the quarantine setting, as this client knows it, 'on' or 'off'
--   margin        if a replica may be promoted: by how many microseconds a quarantine is longer,
--                 for what an old master may still do; otherwise ''. With a margin, the script
--                 checks the server's role again: two failovers may have gone unnoticed since the
--                 handshake.
--   deadline      the time after which an attempt is too late: its caller has given up
--
-- A lock is "owner token state label", with Redis's own expiry. State 0: held. State 1: released
-- and kept for a last while. State 2: granted by a handoff and not claimed.
-- records.lua says how readers share a lock.

-- part: text
local function text(number) return string.format('%.0f', number) end

-- part: clock
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- part: gate
-- The watermark, if grants are allowed; otherwise the refusal, which is a table.
local function gate(now)
  -- include check_epoch
  return mark
end

-- part: unfit
-- The refusal of a request; nil if it may be granted.
local function unfit(now, lease, floor)
  -- include check_request
end

-- part: epoch
-- include unknown
-- include text
-- include clock
-- include gate
-- include unfit

-- The watermark, if nothing but the lock itself stands against this attempt; otherwise the refusal,
-- which is a table.
local function admit(now, lease, floor)
  -- include check_epoch
  -- include check_request
  return mark
end

-- A new token; nil if no number is left.
local function mint(now, mark, floor)
  local token, shown
  -- include make_token
  return shown and token or nil
end
