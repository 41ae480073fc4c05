-- The first part of every script that may grant: the check of the epoch, the token, and the grant
-- of a free lock. Times are microseconds of the server's clock. Numbers that may be large are
-- always formatted with %.0f, since Lua's own format loses digits from 1e14 on.
--
-- Memory: if a server has reached its maxmemory, it refuses the first write of a script if that
-- write may need memory (SET, HSET, RPUSH), and no write after it. A first write that changes
-- nothing counts too. So every script frees or shortens first (DEL, HDEL, LPOP, PEXPIRE), and
-- writes more after that. So also on a full server a held lock can be renewed, claimed, released
-- and handed over. Only a new grant or a new entry begins with a write that may be refused.
--
-- Speed: each function costs the server as much as an argument, or half of a command. So a script
-- serves its common case right after this text, and only then makes the functions of queue.lua.
--
-- KEYS: 1 epoch record   2 lock   3 queue (list of owners)   4 entries (hash by owner)   5 tombstone
-- The first arguments of each script that may grant (text.rs makes them local variables):
--   run, replid   run id and replication id of the server, from the last handshake on this connection
--   longest       the longest lease, as this client knows it, as text
--   quarantine    the quarantine setting, as this client knows it, 'on' or 'off'
--   margin        if a replica may be promoted: by how many microseconds a quarantine is longer, for what an old
--                 master may still do; otherwise ''. With a margin, the script checks the server's
--                 role again: two failovers may have gone unnoticed since the handshake.
--   deadline      the time after which an attempt is too late: its caller has given up
--
-- A lock is "owner token state label", with Redis's own expiry. State 0: held. State 1: released
-- and kept for a last while. State 2: handed over and not claimed. records.lua says how readers
-- share a lock.

-- include unknown.lua
local function text(number) return string.format('%.0f', number) end

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- The refusal of an attempt whose caller has given up; nil if it is in time.
local function late(now)
  -- guard: late
  if now > deadline + 0 then return {'late'} end
end

local function identity()
  local server, replication = redis.call('INFO', 'server'), redis.call('INFO', 'replication')
  return string.match(server, 'run_id:(%x+)'), string.match(replication, 'master_replid:(%x+)')
end

-- Why an epoch began although the record is there.
local function new_epoch(same_run)
  if not same_run then return 'the server restarted or changed its role' end
  return 'its first replica came, its last one left (redis-cli --rdb counts as one), or the server changed its role'
end

-- The watermark, if grants are allowed; otherwise nil and the refusal.
local function gate(now)
  local last_run, last_replid, from, mark, stored_longest, stored_quarantine, span, why, version = unpack(redis.call(
    'HMGET', KEYS[1], 'run', 'replid', 'from', 'mark', 'longest', 'quarantine', 'span', 'why', 'version'))
  local refusal = unknown(version, stored_longest)
  -- guard: version
  if refusal then return nil, refusal end
  -- guard: known
  local known = last_run == run and last_replid == replid and from
  from, span = tonumber(from or 0), tonumber(span or 0)
  local sure = known
  -- guard: failover
  sure = sure and margin == ''
  if not sure then
    -- The client's last handshake is out of date. It writes no record, and asks again.
    local true_run, true_replid = identity()
    -- guard: stale
    if run ~= true_run or replid ~= true_replid then return nil, {'stale'} end
  end
  if not known then
    stored_longest, stored_quarantine = stored_longest or longest, stored_quarantine or quarantine
    why = not last_run and 'the epoch record was missing: a first use, or the data were lost'
      or new_epoch(last_run == run)
    span = math.max(span, math.max(tonumber(stored_longest), tonumber(longest)) + (tonumber(margin) or 0))
    -- guard: new_epoch
    from = stored_quarantine == 'on' and now + span or 0
    redis.call('HSET', KEYS[1], 'run', run, 'replid', replid, 'from', text(from), 'span', text(span),
      'longest', stored_longest, 'quarantine', stored_quarantine, 'why', why, 'version', VERSION)
  end
  local same = stored_longest == longest and stored_quarantine == quarantine
  -- guard: settings
  if not same then return nil, {'settings', stored_longest, stored_quarantine} end
  -- guard: quarantine
  if from > now then
    if from - now > span then
      -- The clock went back. The remaining wait is the whole span again, but no longer.
      from = now + span
      redis.call('HSET', KEYS[1], 'from', text(from))
    end
    return nil, {'quarantine', text(from - now), why or 'an operator set the quarantine'}
  end
  -- If the watermark is not a number, or is above all tokens, no token is left to grant.
  return math.min(tonumber(mark or 0) or 9007199254740991, 9007199254740991)
end

-- The refusal of a request whose floor or lease is above what the settings allow; nil if there is
-- none.
local function unfit(now, lease, floor)
  local highest = now + longest
  -- guard: floor
  if tonumber(floor) > highest then return {'floor', text(highest)} end
  -- guard: lease
  if lease * 1000 > tonumber(longest) then return {'lease'} end
end

-- The watermark, if nothing but the lock itself stands against this attempt; otherwise nil and the
-- refusal.
local function admit(now, lease, floor)
  local refusal, mark = late(now), nil
  if not refusal then mark, refusal = gate(now) end
  refusal = refusal or unfit(now, lease, floor)
  if refusal then return nil, refusal end
  return mark
end

-- A token above all tokens of this store. It is written to the watermark before anything can forget
-- it. nil if no number is left. Also returns it as text.
local function mint(now, mark, floor)
  -- guard: mint
  local token = math.max(now, mark + 1, floor + 1)
  if token > 9007199254740991 then return nil end
  local shown = text(token)
  -- guard: mark
  redis.call('HSET', KEYS[1], 'mark', shown)
  return token, shown
end

-- Writes the record of a lock; the token is text.
local function hold(owner, token, state, label, ms)
  local record = owner .. ' ' .. token .. ' ' .. state .. ' ' .. label
  redis.call('SET', KEYS[2], record, 'PX', ms)
  return record
end

-- Gives the free lock, for which nobody waits, to a writer. Returns the token as text; otherwise
-- nil and the refusal.
local function grant(owner, lease, label, floor)
  local now = clock()
  local mark, refusal = admit(now, lease, floor)
  if not mark then return nil, refusal end
  local token, shown = mint(now, mark, tonumber(floor))
  if not token then return nil, {'exhausted'} end
  hold(owner, shown, '0', label, lease)
  return shown
end

-- Runs what follows a release. The release stands even if the server refuses that: for want of
-- memory, or because a script has emptied a key while its slot is moving, so that a cluster takes
-- the key for one that has moved. Entries that were passed over learn it from their next heartbeat.
-- Returns whether it was done, and its result.
local function try(...)
  local done, result = pcall(...)
  if done then return true, result end
  local message = type(result) == 'table' and result.err or tostring(result)
  if not (string.find(message, 'OOM', 1, true) or string.find(message, 'non local key', 1, true)) then
    error(result)
  end
  return false
end
