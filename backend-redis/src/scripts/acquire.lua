-- One attempt. If it is refused and the client wants it, the owner gets an entry in the queue.
-- KEYS: 1 epoch record   2 lock   3 queue   4 entries   5 tombstone of the owner
-- ARGV (few, since each costs the server time):
--       1 'run-id replication-id longest quarantine', and ' margin' if there is one: see common.lua
--       2 deadline   3 owner   4 lease ms   5 label   and, unless both are trivial,
--       6 floor, with a 0 in front for a reader   7 channel for pushes, or '' for no entry
-- Answer: on the short way only the token, since a table would cost the server a buffer of its own. Otherwise
--       {'granted', token}, {'busy', ...} of `busy`, or {'late'}, {'lease'}, {'floor', highest}, {'exhausted'} and
--       the refusals of `gate`.

-- include take.lua
-- The short way: there is no record, queue or tombstone. Every case in doubt goes the long way. The short way comes first,
-- since defining the functions of common.lua costs more than taking a free lock.
-- guard: short_free
if not string.find(ARGV[6] or '', '^0%d') and redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[5]) == 0 then
  local token = take(ARGV[3], ARGV[5], ARGV[4], ARGV[6])
  if token then return token end
end

-- The long way.
local run, replid, longest, quarantine, margin =
  string.match(ARGV[1], '^(%S+) (%S+) (%S+) (%S+) ?(%S*)$')
local deadline, owner, lease, label = ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local floor, channel = ARGV[6] or '0', ARGV[7] or ''

-- include limits.lua
-- include common.lua
local now = clock()
-- guard: held
local record = living(KEYS[2], read(KEYS[2]), now)
local own = record and holds(record, owner)
if own then
  local e = redis.call('HMGET', KEYS[1], 'longest', 'version')
  local refusal = unknown(e[2], e[1])
  -- guard: repeat_version
  if refusal then return refusal end
  -- A client that knows an old longest lease learns the new one below.
  -- guard: repeat_lease
  own = lease * 1000 <= (e[1] or longest) + 0
end
-- guard: repeat
if own then
  local _, token, state = parse(record)
  -- The claim of a lock that was handed over, as in renew.lua.
  if state == '2' then
    hold_anew(owner, token, '0', label, lease)
    return {'granted', text(token)}
  -- guard: repeat_kept
  elseif state == '0' then
    prolong(record, owner, now, lease)
    return {'granted', text(token)}
  end
end
-- guard: late
if late(now) then return {'late'} end
local mark, refusal = gate(now)
if not mark then return refusal end
local highest = now + longest
-- guard: floor
if tonumber(floor) > highest then return {'floor', text(highest)} end
-- guard: lease
if lease * 1000 > tonumber(longest) then return {'lease'} end
-- guard: tombstone
if redis.call('EXISTS', KEYS[5]) == 1 then return busy(owner, nil, mark, record) end
local reader = is_reader(floor)
local group = readers(record)
if not record or reader and group then
  -- No request passes a live entry in the queue. This attempt is a heartbeat of its own entry.
  local crowded = redis.call('EXISTS', KEYS[3]) == 1
  if crowded then
    keep_entry(now, owner)
    record = hand_over(now, mark, owner, record)
    if record and holds(record, owner) then
      local _, token = parse(record)
      return {'granted', text(token)}
    end
    -- guard: join_entry
    crowded = redis.call('EXISTS', KEYS[3]) == 1
    group = readers(record)
  end
  if not record or reader and group and group < MOST_READERS and not crowded then
    local _, shared_token = parse(record)
    local token = mint_for(shared_token, now, mark, tonumber(floor))
    if not token then return {'exhausted'} end
    if reader then
      share(record, ' ' .. owner .. ':' .. lease_end(now, lease), token, label, lease)
    else
      hold(owner, token, '0', label, lease)
    end
    return {'granted', text(token)}
  end
end
local entry = channel ~= '' and table.concat({lease, floor, channel, label}, ' ') or nil
return busy(owner, keep_entry(now, owner, entry), mark, record)
