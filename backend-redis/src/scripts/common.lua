-- The functions of all scripts that may grant. Times are microseconds of the server's clock. Numbers that may be large
-- are always formatted with %.0f, since Lua's own format loses digits from 1e14 on.
--
-- Memory: if a server has reached its maxmemory, it refuses the first write of a script if that write may need memory
-- (SET, HSET, RPUSH), and no write after it. A first write that changes nothing counts too. So every script frees or
-- shortens first (DEL, HDEL, LPOP, PEXPIRE), and writes more after that. So also on a full server a held lock can be
-- renewed, claimed, released and handed over. Only a new grant or a new entry begins with a write that may be refused.
--
-- KEYS: 1 epoch record   2 lock   3 queue (list of owners)   4 entries (hash by owner)   5 tombstone
-- Before this text each script has limits.lua, and these locals from its arguments:
--   run, replid   run id and replication id of the server, from the last handshake on this connection
--   longest       the longest lease, as this client knows it, as text
--   quarantine    the quarantine setting, as this client knows it, 'on' or 'off'
--   deadline      the time after which an attempt is too late: its caller has given up
--   margin        if a replica may be promoted: by how many microseconds a quarantine is longer, for what an old
--                 master may still do; otherwise ''. With a margin, the script checks the server's role again: two
--                 failovers may have gone unnoticed since the handshake.
--
-- A lock is "owner token state label", with Redis's own expiry. State 0: held. State 1: released and kept for a last
-- while. State 2: handed over and not claimed. An entry is "until lease floor channel label".
--
-- readers.lua says how readers share a lock. To a script of an older version that does not know readers, somebody else
-- holds it. The floor of a reader's entry has a 0 in front. An older script reads the same number, and hands the whole lock
-- to that entry.

-- include unknown.lua
-- include readers.lua
local function text(number) return string.format('%.0f', number) end

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function late(now) return now > deadline + 0 end

-- The value of a lock's key. A key of another type counts as a record that cannot be read: ''.
local function read(key)
  local record = redis.pcall('GET', key)
  if type(record) ~= 'table' then return record end
  if not string.find(record.err, 'WRONGTYPE', 1, true) then error(record) end
  return ''
end

-- The parts of a record; nil if it cannot be read. Such a record belongs to no owner, and holds the lock until it expires.
local function parse(record)
  local owner, token, state, label = string.match(record or '', '^(%x+) (%d+) ([012]) ([^\n]*)')
  if not owner or #owner ~= 32 or tonumber(token) > 9007199254740991 then return nil end
  return owner, tonumber(token), state, label
end

local function is_reader(floor) return string.find(floor, '^0%d') ~= nil end

-- How many readers share the lock with this record; nil if it is not shared.
local function readers(record)
  if parse(record) ~= READERS then return nil end
  local line = readers_line(record)
  return line and (#record - line) / READER_BYTES
end

-- The position of a reader's owner in a record, after the space; nil if it is not there.
local function reader_position(record, owner)
  local line = readers(record) and readers_line(record)
  return line and string.find(record, owner, line, true)
end

-- Whether `owner` holds the lock with this record, alone or with others.
local function holds(record, owner)
  -- guard: member
  return string.sub(record, 1, 32) == owner or reader_position(record, owner) ~= nil
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

-- The watermark, if grants are allowed; otherwise nil and the answer to give. The short ways make the same checks: `open`
-- of take.lua, and batch.lua.
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

-- A token above all tokens of this store. It is written to the watermark before anything can forget it. nil if no number is
-- left.
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

-- As `hold`, over an existing record. The expiry is set first, since that needs no memory.
local function hold_anew(owner, token, state, label, ms)
  redis.call('PEXPIRE', KEYS[2], ms)
  return hold(owner, token, state, label, ms)
end

-- The token of a reader that joins a group: the group's token, unless the reader's floor is not below it. A new token if
-- there is no group.
local function mint_for(token, now, mark, floor)
  -- guard: join_floor
  if token and token > floor then return token end
  return mint(now, mark, floor)
end

-- Adds readers to those of `group`, or makes them the first readers if there is no group. Each of `more` is a space, the
-- owner, a colon and the end of its lease. The latest of these ends is in `ms`.
local function share(group, more, token, label, ms)
  local others = group and string.sub(group, readers_line(group)) or '\n'
  -- guard: join_shorter
  if group then ms = math.max(ms, redis.call('PTTL', KEYS[2])) end
  local record = READERS .. ' ' .. text(token) .. ' 0 ' .. label .. others .. more
  redis.call('SET', KEYS[2], record, 'PX', ms)
  return record
end

-- Prolongs the lease of the owner, alone or among readers. It may be asked late, so it never shortens a lease. It always
-- writes: Valkey lets WAIT cover only what a call has written. The expiry is set first, since that needs no memory.
local function prolong(record, owner, now, ms)
  -- guard: repeat_keeps
  local left = math.max(ms, redis.call('PTTL', KEYS[2]))
  -- guard: repeat_writes
  redis.call('PEXPIRE', KEYS[2], left)
  local at = reader_position(record, owner)
  if not at then return end
  local ends = string.sub(record, at + 33, at + 45)
  local later = lease_end(now, ms)
  -- guard: repeat_reader
  if later > ends then ends = later end
  redis.call('SET', KEYS[2], string.sub(record, 1, at + 32) .. ends .. string.sub(record, at + 46), 'PX', left)
end

-- Removes one reader from a group. Returns the rest of the record, or false if that was the last reader and the lock is
-- free.
local function leave(group, owner, now)
  local at = reader_position(group, owner)
  if readers(group) == 1 then
    redis.call('DEL', KEYS[2])
    return false
  end
  local rest = string.sub(group, 1, at - 2) .. string.sub(group, at + 46)
  local latest = '0'
  for from = readers_line(rest) + 1, #rest, READER_BYTES do
    local ends = string.sub(rest, from + 34, from + 46)
    if ends > latest then latest = ends end
  end
  -- guard: leave_end
  local left = math.max(1, latest - math.floor(now / 1000))
  -- The expiry is set first, since that needs no memory.
  redis.call('PEXPIRE', KEYS[2], left)
  -- guard: leave
  redis.call('SET', KEYS[2], rest, 'PX', left)
  return rest
end

-- Gives the free lock to the first live entry. If that is a reader's, the readers behind it get in too, up to the first
-- writer. If readers share the lock, `group` is their record, and only readers get in. Returns the new record, or the given
-- one if nobody gets in. The owner `asker` gets its whole lease at once; any other owner gets a push, and has the claim
-- window. The record is written once, however many readers get in, and before the pushes: who is pushed believes. The short
-- way of release.lua repeats this rule for a queue that is not empty.
local function hand_over(now, mark, asker, group)
  group = group or nil
  local count, longest_ms, more, pushes = group and readers(group) or 0, 0, {}, {}
  local _, token, _, label = parse(group)
  local record = group
  while true do
    local owner
    if count > 0 then owner = redis.call('LINDEX', KEYS[3], 0) else owner = redis.call('LPOP', KEYS[3]) end
    if not owner then break end
    local entry = redis.call('HGET', KEYS[4], owner)
    local until_, lease, floor, channel, own_label =
      string.match(entry or '', '^(%d+) (%d+) (%d+) (%S+) (.*)$')
    until_ = tonumber(until_)
    -- An end more than one life ahead: the clock went back, and the entry may be long dead.
    -- guard: dead_entry
    if until_ and not (until_ > now and until_ <= now + LIFE_US) then until_ = nil end
    local reader = until_ and is_reader(floor)
    if count > 0 then
      -- guard: writer_first
      if until_ and not (reader and count < MOST_READERS) then break end
      redis.call('LPOP', KEYS[3])
    end
    redis.call('HDEL', KEYS[4], owner)
    if until_ then
      -- guard: entry_floor
      local own_token = mint_for(token, now, mark, tonumber(floor))
      if not own_token then break end
      token, label = own_token, own_label
      local mine = owner == asker
      local ms = mine and tonumber(lease) or CLAIM_MS
      if not mine then pushes[#pushes + 1] = {channel, owner .. ' ' .. text(token) .. ' ' .. CLAIM_MS} end
      if not reader then
        -- guard: claim
        record = hold(owner, token, mine and '0' or '2', label, ms)
        break
      end
      count, longest_ms = count + 1, math.max(longest_ms, ms)
      more[#more + 1] = ' ' .. owner .. ':' .. lease_end(now, ms)
    end
  end
  if more[1] then record = share(group, table.concat(more), token, label, longest_ms) end
  for _, push in ipairs(pushes) do
    local sharded = string.find(push[1], '}:spush:', 1, true)
    redis.call(sharded and 'SPUBLISH' or 'PUBLISH', push[1], push[2])
  end
  return record
end

-- Runs what follows a release. The release stands even if the server refuses that: for want of memory, or because a script
-- has emptied a key while its slot is moving, so that a cluster takes the key for one that has moved. Entries that were
-- passed over learn it from their next heartbeat. Returns whether it was done, and its result.
local function try(...)
  local done, result = pcall(...)
  if done then return true, result end
  local message = type(result) == 'table' and result.err or tostring(result)
  if not (string.find(message, 'OOM', 1, true) or string.find(message, 'non local key', 1, true)) then
    error(result)
  end
  return false
end

-- Puts an entry at the end of the queue, or prolongs the entry that exists. With `entry` nil it only prolongs. Returns nil
-- if there is no entry, true for an old one, or the position of a new one. The short way of release.lua repeats this rule.
local function keep_entry(now, owner, entry)
  local known = redis.call('HGET', KEYS[4], owner)
  if not known and not entry then return nil end
  -- First, since this write needs no memory.
  if known then redis.call('PEXPIRE', KEYS[4], TOMB_MS) end
  -- A repeat has the same request, and so the same entry.
  entry = entry or string.match(known, '^%d+ (.*)$') or ''
  local number = true
  if redis.call('HSET', KEYS[4], owner, text(now + LIFE_US) .. ' ' .. entry) == 1 then
    number = redis.call('RPUSH', KEYS[3], owner)
  end
  -- Both keys live much longer than an entry. They expire by themselves if nobody uses them.
  if redis.call('PTTL', KEYS[3]) < TOMB_MS / 2 then
    redis.call('PEXPIRE', KEYS[3], TOMB_MS)
    redis.call('PEXPIRE', KEYS[4], TOMB_MS)
  end
  return number
end

-- {'busy', owner ('?' if the record cannot be read), label, remaining ms, token, retry ms, 1 if the asker has an entry}.
-- `record` is the present one, and `queued` the result of `keep_entry` for the asker.
local function busy(asker, queued, mark, record)
  local owner, token, _, label = parse(record)
  local left = record and redis.call('PTTL', KEYS[2]) or 0
  if left == -1 then
    -- No record of this store stays for ever. Whatever this one is, no lease is longer than this.
    left = math.ceil(longest / 1000)
    redis.call('PEXPIRE', KEYS[2], left)
  end
  local near = not queued or queued ~= true and queued <= NEAR
    or queued == true and redis.call('LPOS', KEYS[3], asker, 'MAXLEN', NEAR)
  -- A client near the head asks again when the lease ends, since the holder may have crashed.
  local retry = near and math.max(1, math.min(NEAR_MS, left + 1)) or FAR_MS
  return {'busy', owner or record and '?' or '', label or '', left, text(token or mark), retry, queued and 1 or 0}
end
