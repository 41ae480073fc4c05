-- The check of the epoch, for the middle of a script or of a function. Before it stands `now`. It
-- returns the refusal, or goes on with the watermark in `mark`. See epoch.lua.
-- include version.lua
local last_run, last_replid, from, mark, stored_longest, stored_quarantine, version = unpack(redis.call(
  'HMGET', KEYS[1], 'run', 'replid', 'from', 'mark', 'longest', 'quarantine', 'version'))
if version ~= VERSION then
  -- include unknown.lua
  local refusal = unknown(version, stored_longest)
  -- guard: version
  if refusal then return refusal end
end
-- guard: known
local known = last_run == run and last_replid == replid and from
from = tonumber(from or 0)
local sure = known
-- guard: failover
sure = sure and margin == ''
if not sure then
  -- include server_change.lua
  -- The client's last handshake is out of date. It writes no record, and asks again.
  local true_run, true_replid = identity()
  -- guard: stale
  if run ~= true_run or replid ~= true_replid then return {'stale'} end
  if not known then
    stored_longest, stored_quarantine = stored_longest or longest, stored_quarantine or quarantine
    local why = not last_run and 'the epoch record was missing: a first use, or the data were lost'
      or new_epoch(last_run == run)
    local span = math.max(tonumber(stored_longest), tonumber(longest)) + (tonumber(margin) or 0)
    span = math.max(span, tonumber(redis.call('HGET', KEYS[1], 'span') or 0))
    -- include text.lua
    -- guard: new_epoch
    from = stored_quarantine == 'on' and now + span or 0
    -- include since.lua
    redis.call('HSET', KEYS[1], 'since', since, 'run', run, 'replid', replid, 'from', text(from), 'span', text(span),
      'longest', stored_longest, 'quarantine', stored_quarantine, 'why', why, 'version', VERSION)
  end
end
local same = stored_longest == longest and stored_quarantine == quarantine
-- guard: settings
if not same then return {'settings', stored_longest, stored_quarantine} end
-- guard: quarantine
if from > now then
  -- include text.lua
  local span, why = unpack(redis.call('HMGET', KEYS[1], 'span', 'why'))
  span = tonumber(span or 0)
  if from - now > span then
    -- The clock went back. The remaining wait is the whole span again, but no longer.
    from = now + span
    redis.call('HSET', KEYS[1], 'from', text(from))
  end
  return {'quarantine', text(from - now), why or 'an operator set the quarantine'}
end
-- If the watermark is not a number, or is above all tokens, no token is left to grant.
mark = math.min(tonumber(mark or 0) or 9007199254740991, 9007199254740991)
