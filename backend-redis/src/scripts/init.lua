-- Creates or changes the store's settings.
-- KEYS: 1 epoch record
-- epoch args: action new_longest new_quarantine records
--       action: 1 for a first use, 2 to set the tokens back, or 0. The settings: '' to keep the
--       present one. records: 'complete' if the operator says that none was lost
-- Answer: {'set', longest lease, quarantine, µs until grants begin}, or that of `unknown`

-- include tunables
-- include epoch
-- include server_change
local now = clock()
local last_run, last_replid, from, span, stored_longest, stored_quarantine, version = unpack(redis.call(
  'HMGET', KEYS[1], 'run', 'replid', 'from', 'span', 'longest', 'quarantine', 'version'))
local refusal = unknown(version, stored_longest)
-- guard: init_version | S1 | another_version_is_refused
if refusal then return refusal end
from, span = tonumber(from or 0), tonumber(span or 0)
local true_run, true_replid = identity()
local known = last_run == true_run and last_replid == true_replid
local old_longest = stored_longest or longest
if new_longest == '' then new_longest = old_longest end
if new_quarantine == '' then new_quarantine = stored_quarantine or quarantine end
local why = nil
-- guard: init_tokens | S1 | an_init_that_starts_a_wait(tokens) | if false then
if action == '2' then
  why = 'the tokens were set back'
elseif not known then
  why = last_run and new_epoch(last_run == true_run) or 'the store is new'
-- guard: init_longest | S1 | an_init_that_starts_a_wait(shorter) | elseif false then
elseif stored_longest ~= new_longest then
  why = 'the longest lease was changed'
-- guard: init_quarantine | S1 | an_init_that_starts_a_wait(quarantine) | elseif false then
elseif stored_quarantine ~= new_quarantine and new_quarantine == 'on' then
  -- While it was off, data may have been lost, and nobody has waited since.
  why = 'the quarantine was turned on'
end
if why then
  local lease = tonumber(new_longest)
  -- guard: init_old_longest | S1 | an_init_that_starts_a_wait(shorter) | span = 0
  -- guard: init_new_longest | S1 | an_init_that_starts_a_wait(longer) |
  --   lease = tonumber(old_longest)
  lease = math.max(lease, tonumber(old_longest))
  span = math.max(span, lease + (tonumber(margin) or 0))
  -- An entry without heartbeats dies in this time. It may have asked for the old lease.
  if tonumber(new_longest) < tonumber(old_longest) then span = math.max(span, LIFE_US) end
  from = now + span
  redis.call('HSET', KEYS[1], 'why', why)
elseif from - now > span then
  from = now + span
end
if action == '1' then
  -- The operator says that nobody holds a lock. So no longer lease from before has to be waited
  -- out.
  span = new_longest + (tonumber(margin) or 0)
end
-- If a wait runs while the quarantine is off, an operator has started it. An init that changes
-- nothing does not cut it short.
if action == '1' or (action == '0' and new_quarantine == 'off'
  and not (known and (stored_longest ~= new_longest or stored_quarantine == 'off'))) then
  from = 0
end
-- guard: init_since | S7 | an_init_after_a_loss | if false then
if not known then
  -- include since
  redis.call('HSET', KEYS[1], 'since', since)
end
if records == 'complete' then redis.call('HSET', KEYS[1], 'since', '0') end
redis.call('HSET', KEYS[1], 'run', true_run, 'replid', true_replid, 'from', text(from), 'span', text(span),
  'longest', new_longest, 'quarantine', new_quarantine, 'version', VERSION)
if action == '2' then
  -- When grants begin again, the clock is past all tokens: none was further ahead of it than the
  -- wait is long.
  local marks = {'mark', 'top'}
  -- Redlock's watermarks, by the names in its scripts.
  for at = 0, 1023 do marks[#marks + 1] = 'mark' .. at end
  redis.call('HDEL', KEYS[1], unpack(marks))
end
return {'set', new_longest, new_quarantine, text(math.max(0, from - now))}
