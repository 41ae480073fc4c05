-- What all scripts that may grant have in common. Times are microseconds of the server's clock; numbers that may be
-- large are always formatted with %.0f, since Lua's own format loses digits from 1e14 on.
--
-- Memory: a server that has reached its maxmemory refuses the first write of a script, if that write may
-- need memory (SET, HSET, RPUSH), and none after it. The first one counts also where it changes nothing.
-- So every script frees or shortens first (DEL, HDEL, LPOP, PEXPIRE), and writes more behind that: what is
-- held is renewed, claimed, given back and handed over also on a full server. Only a new grant or a new
-- place begins with a write that may be refused.
--
-- KEYS: 1 epoch record   2 lock   3 queue (list of owners)   4 places (hash by owner)   5 tombstone
-- In front of this stand, as locals of each script, limits.lua and what the script was sent:
--   run, replid   run id and replication id that this connection was told
--   longest       the longest lease that the client believes in, as text
--   quarantine    its quarantine setting, 'on' or 'off'
--   deadline      the time from which on an attempt is too late: its caller has given up
--   margin        where a replica may be promoted, by how many microseconds a quarantine is longer, for what an old
--                 master may still do; otherwise ''. With it the role is not taken on trust: two failovers in a row
--                 may have gone unnoticed since the client was told.
--
-- A lock is "owner token state label", with Redis's own expiry; state 0 held, 1 released and kept
-- for a last while, 2 handed over and not claimed. A place is "until lease floor channel label".
--
-- A lock that readers share is "READERS token 0 label", and on a second line the owner of each reader behind a space;
-- the label is that of the reader that came last, and the expiry is that of the latest lease. A script that knows of
-- no readers finds somebody else's lock. The floor of a reader's place has a 0 in front: to a script that knows of no
-- readers it is the same number, and the lock that it hands to that place is a whole one.

-- include unknown.lua
local function text(number) return string.format('%.0f', number) end

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function late(now) return now > deadline + 0 end

-- What a lock's key has; where it is of another type, a record that cannot be read: ''.
local function read(key)
  local record = redis.pcall('GET', key)
  if type(record) ~= 'table' then return record end
  if not string.find(record.err, 'WRONGTYPE', 1, true) then error(record) end
  return ''
end

-- The parts of a record; nil if it cannot be read. Such a one is nobody's, and holds the lock until it ends.
local function parse(record)
  local owner, token, state, label = string.match(record or '', '^(%x+) (%d+) ([012]) ([^\n]*)')
  if not owner or #owner ~= 32 or tonumber(token) > 9007199254740991 then return nil end
  return owner, tonumber(token), state, label
end

local READERS = string.rep('0', 32)

local function is_reader(floor) return string.find(floor, '^0%d') ~= nil end

-- How many readers share the lock with this record; nil if it is not shared.
local function readers(record)
  if parse(record) ~= READERS then return nil end
  local line = string.find(record, '\n', 1, true)
  return line and (#record - line) / 33
end

-- Where the owner of one of its readers stands in a record, after the space; nil if nowhere.
local function place_among(record, owner)
  local line = readers(record) and string.find(record, '\n', 1, true)
  return line and string.find(record, owner, line, true)
end

-- Whether the lock with this record is held by `owner`, alone or with others.
local function holds(record, owner)
  -- guard: member
  return string.sub(record, 1, 32) == owner or place_among(record, owner) ~= nil
end

local function identity()
  local server, replication = redis.call('INFO', 'server'), redis.call('INFO', 'replication')
  return string.match(server, 'run_id:(%x+)'), string.match(replication, 'master_replid:(%x+)')
end

-- The watermark, where grants are allowed; otherwise nil and the answer to give. The short ways ask the same: `open`
-- of take.lua, and batch.lua.
local function gate(now)
  local last_run, last_replid, from, mark, stored_longest, stored_quarantine, span, why, version = unpack(redis.call(
    'HMGET', KEYS[1], 'run', 'replid', 'from', 'mark', 'longest', 'quarantine', 'span', 'why', 'version'))
  local refusal = unknown(version, stored_longest)
  -- guard: version
  if refusal then return nil, refusal end
  from, span = tonumber(from or 0), tonumber(span or 0)
  -- guard: known
  local known = last_run == run and last_replid == replid
  local sure = known
  -- guard: failover
  sure = sure and margin == ''
  if not sure then
    -- A client that was told long ago writes no record; it asks again.
    local true_run, true_replid = identity()
    -- guard: stale
    if run ~= true_run or replid ~= true_replid then return nil, {'stale'} end
  end
  if not known then
    stored_longest, stored_quarantine = stored_longest or longest, stored_quarantine or quarantine
    why = last_run and 'the server restarted or changed its role'
      or 'the epoch record was missing: a first use, or the data were lost'
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
      -- The clock went back: the wait is as long as it ever was, and no longer.
      from = now + span
      redis.call('HSET', KEYS[1], 'from', text(from))
    end
    return nil, {'quarantine', text(from - now), why or 'an operator set the quarantine'}
  end
  -- What is no number, or above all tokens, leaves none.
  return math.min(tonumber(mark or 0) or 9007199254740991, 9007199254740991)
end

-- A token above all of this store's, remembered before anything forgets it; nil when the numbers are
-- used up.
local function mint(now, mark, floor)
  -- guard: mint
  local token = math.max(now, mark + 1, floor + 1)
  if token > 9007199254740991 then return nil end
  -- guard: mark
  redis.call('HSET', KEYS[1], 'mark', text(token))
  return token
end

local function hold(owner, token, state, label, ms)
  local record = owner .. ' ' .. text(token) .. ' ' .. state .. ' ' .. label
  redis.call('SET', KEYS[2], record, 'PX', ms)
  return record
end

-- The same over a record that is there: its time first, which needs no memory.
local function hold_anew(owner, token, state, label, ms)
  redis.call('PEXPIRE', KEYS[2], ms)
  return hold(owner, token, state, label, ms)
end

-- The token of a reader that joins those of `group`: theirs, unless its floor is not below that. A new one where there is
-- no group.
local function mint_for(group, now, mark, floor)
  local _, token = parse(group)
  -- guard: join_floor
  if token and token > floor then return token end
  return mint(now, mark, floor)
end

-- Makes an owner a reader beside those of `group`, or the first one where there is none.
local function share(group, owner, token, label, ms)
  local others = group and string.match(group, '\n.*$') or '\n'
  -- guard: join_shorter
  if group then ms = math.max(ms, redis.call('PTTL', KEYS[2])) end
  local record = READERS .. ' ' .. text(token) .. ' 0 ' .. label .. others .. ' ' .. owner
  redis.call('SET', KEYS[2], record, 'PX', ms)
  return record
end

-- Takes one reader out of a group: what is left of the record, or false, where that was the last one and the lock is
-- free.
local function leave(group, owner)
  local at = place_among(group, owner)
  if readers(group) == 1 then
    redis.call('DEL', KEYS[2])
    return false
  end
  local rest = string.sub(group, 1, at - 2) .. string.sub(group, at + 32)
  local left = math.max(1, redis.call('PTTL', KEYS[2]))
  -- Its time first, which needs no memory.
  redis.call('PEXPIRE', KEYS[2], left)
  -- guard: leave
  redis.call('SET', KEYS[2], rest, 'PX', left)
  return rest
end

-- Gives the free lock to the first live place, and if that is a reader's, to the readers behind it, up to the first
-- writer. Where readers share the lock, their `group` is given, and only readers get in. Returns the record; what was
-- given if nobody gets in. `me` takes it at once, with its whole lease; any other owner is told, and has the claim
-- window. The same rule stands in the short way of release.lua where others wait.
local function pass_on(now, mark, me, group)
  group = group or nil
  while true do
    local owner
    if group then owner = redis.call('LINDEX', KEYS[3], 0) else owner = redis.call('LPOP', KEYS[3]) end
    if not owner then return group end
    local place = redis.call('HGET', KEYS[4], owner)
    local until_, lease, floor, channel, label =
      string.match(place or '', '^(%d+) (%d+) (%d+) (%S+) (.*)$')
    until_ = tonumber(until_)
    -- Beyond a life ahead: the clock went back, and the place may be long dead.
    -- guard: dead_place
    if until_ and not (until_ > now and until_ <= now + LIFE_US) then until_ = nil end
    local reader = until_ and is_reader(floor)
    if group then
      -- guard: writer_first
      if until_ and not (reader and readers(group) < MOST_READERS) then return group end
      redis.call('LPOP', KEYS[3])
    end
    redis.call('HDEL', KEYS[4], owner)
    if until_ then
      -- guard: place_floor
      local token = mint_for(group, now, mark, tonumber(floor))
      if not token then return group end
      local mine, record = owner == me, nil
      if reader then
        record = share(group, owner, token, label, mine and lease or CLAIM_MS)
        group = record
      else
        -- guard: claim
        record = hold(owner, token, mine and '0' or '2', label, mine and lease or CLAIM_MS)
      end
      if not mine then
        local sharded = string.find(channel, '}:spush:', 1, true)
        redis.call(sharded and 'SPUBLISH' or 'PUBLISH', channel, owner .. ' ' .. text(token) .. ' ' .. CLAIM_MS)
      end
      if not reader then return record end
    end
  end
end

-- What comes after a release, which stands also where this is refused: a new place for want of memory, and
-- a key that has become empty while its slot is on the move, which a cluster takes for one that has gone ahead.
-- Places that were passed over learn it when they ask. Returns whether it was done, and what it returned.
local function try(...)
  local done, result = pcall(...)
  if done then return true, result end
  local message = type(result) == 'table' and result.err or tostring(result)
  if not (string.find(message, 'OOM', 1, true) or string.find(message, 'non local key', 1, true)) then
    error(result)
  end
  return false
end

-- Puts a place at the end of the queue, or hears of the one that is there; only hears with
-- `place` nil. Returns nil if there is none, true for an old one, or the number of a new one. The same rule stands
-- in the short way of release.lua.
local function heard(now, owner, place)
  local known = redis.call('HGET', KEYS[4], owner)
  if not known and not place then return nil end
  -- First, since it needs no memory.
  if known then redis.call('PEXPIRE', KEYS[4], TOMB_MS) end
  -- A repeat has the same request, and so the same place.
  place = place or string.match(known, '^%d+ (.*)$')
  local number = true
  if redis.call('HSET', KEYS[4], owner, text(now + LIFE_US) .. ' ' .. place) == 1 then
    number = redis.call('RPUSH', KEYS[3], owner)
  end
  -- Both live much longer than a place; what nobody comes back to goes away by itself.
  if redis.call('PTTL', KEYS[3]) < TOMB_MS / 2 then
    redis.call('PEXPIRE', KEYS[3], TOMB_MS)
    redis.call('PEXPIRE', KEYS[4], TOMB_MS)
  end
  return number
end

-- {'busy', owner ('?' if the record cannot be read), label, remaining ms, token, retry ms, has a place}, with the
-- record that is there and what `heard` says of the asker.
local function busy(me, placed, mark, record)
  local owner, token, _, label = parse(record)
  local left = record and redis.call('PTTL', KEYS[2]) or 0
  if left == -1 then
    -- No record of this store stays for ever; whatever this one is, no lease is longer than this.
    left = math.ceil(longest / 1000)
    redis.call('PEXPIRE', KEYS[2], left)
  end
  local near = not placed or placed ~= true and placed <= NEAR
    or placed == true and redis.call('LPOS', KEYS[3], me, 'MAXLEN', NEAR)
  -- A client near the head comes when the lease ends, if the holder has crashed.
  local retry = near and math.max(1, math.min(NEAR_MS, left + 1)) or FAR_MS
  return {'busy', owner or record and '?' or '', label or '', left, text(token or mark), retry, placed and 1 or 0}
end
