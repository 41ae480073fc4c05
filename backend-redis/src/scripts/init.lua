-- Creates or changes the store's settings, and upgrades its records.
-- KEYS: 1 epoch record. ARGV: as in epoch_arguments.lua, and
--       5 1 for a first use, 2 to set the tokens back, or 0   6 longest lease or ''   7 quarantine on, off or ''
-- Answer: {'set', longest lease, quarantine, grants in}, or that of unknown.lua

-- include epoch_arguments.lua
-- include limits.lua
-- include common.lua
local how, new_longest, new_quarantine = ARGV[5], ARGV[6], ARGV[7]
local now = clock()
local last_run, last_replid, from, span, stored_longest, stored_quarantine, version = unpack(redis.call(
  'HMGET', KEYS[1], 'run', 'replid', 'from', 'span', 'longest', 'quarantine', 'version'))
local refusal = unknown(version, stored_longest)
-- The step to version 1 is the number alone, which is set below; a step that changes records stands here.
-- guard: init_version
if refusal and refusal[2] ~= '0' then return refusal end
from, span = tonumber(from or 0), tonumber(span or 0)
local true_run, true_replid = identity()
local known = last_run == true_run and last_replid == true_replid
local old_longest = stored_longest or longest
if new_longest == '' then new_longest = old_longest end
if new_quarantine == '' then new_quarantine = stored_quarantine or quarantine end
local why = nil
-- guard: init_tokens
if how == '2' then
  why = 'the tokens were set back'
elseif not known then
  why = last_run and 'the server restarted or changed its role' or 'the store is new'
-- guard: init_longest
elseif stored_longest ~= new_longest then
  why = 'the longest lease was changed'
-- guard: init_quarantine
elseif stored_quarantine ~= new_quarantine and new_quarantine == 'on' then
  -- While it was off, data may have been lost, and nobody has waited since.
  why = 'the quarantine was turned on'
end
if why then
  local lease = tonumber(new_longest)
  -- guard: init_old_longest
  lease = math.max(lease, tonumber(old_longest))
  span = math.max(span, lease + (tonumber(margin) or 0))
  -- A place that is not heard of dies in this time; it may have asked for the old lease.
  if tonumber(new_longest) < tonumber(old_longest) then span = math.max(span, LIFE_US) end
  from = now + span
  redis.call('HSET', KEYS[1], 'why', why)
elseif from - now > span then
  from = now + span
end
if how == '1' then
  -- Nobody holds a lock, by the operator's word: no longer lease of before is to be waited out.
  span = new_longest + (tonumber(margin) or 0)
end
-- A wait that runs with the quarantine off is an operator's, and is not cut short by an init that changes nothing.
if how == '1' or (how == '0' and new_quarantine == 'off'
  and not (known and (stored_longest ~= new_longest or stored_quarantine == 'off'))) then
  from = 0
end
redis.call('HSET', KEYS[1], 'run', true_run, 'replid', true_replid, 'from', text(from), 'span', text(span),
  'longest', new_longest, 'quarantine', new_quarantine, 'version', VERSION)
if how == '2' then
  -- The clock is past all tokens that were ahead of it by no more than they may when grants begin again.
  local marks = {'mark', 'top'}
  -- Redlock's, by the names of its script.
  for at = 0, 1023 do marks[#marks + 1] = 'mark' .. at end
  redis.call('HDEL', KEYS[1], unpack(marks))
end
return {'set', new_longest, new_quarantine, text(math.max(0, from - now))}
