-- Opens a store without a wait, if nobody has used it since the server's start: the steps are in
-- store/first_use.rs. A candidate is in a field of the epoch record that no other script reads, so
-- it grants nothing.
-- KEYS: 1 epoch record
-- epoch args: nonce witness
--       witness: '' to write a candidate; then whether the witness was there, 'known' or 'unknown'
-- Answer: {'candidate'} if it was written; {'again'} if that of another is there; {'done'} if the
--       record is of this run, or if the rule of check_epoch.lua holds; {'late'}; or the refusals of
--       check_epoch.lua and unknown.lua

-- include epoch.lua
local now = clock()
local last_run, candidate, from, stored_longest, stored_quarantine, span, version = unpack(redis.call(
  'HMGET', KEYS[1], 'run', 'candidate', 'from', 'longest', 'quarantine', 'span', 'version'))
if now > deadline + 0 then return {'late'} end
local refusal = unknown(version, stored_longest)
if refusal then return refusal end
local server, replication = redis.call('INFO', 'server'), redis.call('INFO', 'replication')
local true_run = string.match(server, 'run_id:(%x+)')
-- A later record than that of this client's last look.
-- guard: open_over
if last_run == true_run then return {'done'} end
-- guard: open_run
if run ~= true_run then return {'stale'} end
stored_longest, stored_quarantine = stored_longest or longest, stored_quarantine or quarantine
span = math.max(tonumber(span or 0), tonumber(stored_longest), tonumber(longest))
-- Leases that were granted before the start are over. INFO shows whole seconds.
-- guard: open_uptime
if string.match(server, 'uptime_in_seconds:(%d+)') * 1000000 <= span + 2000000 then return {'done'} end
-- No replica, which may have been promoted, and no master before this one.
for _, line in ipairs({'connected_slaves:0', 'repl_backlog_active:0', 'master_replid2:' .. string.rep('0', 40)}) do
  -- guard: open_alone
  if not string.find(replication, line .. '\r', 1, true) then return {'done'} end
end
if string.find(replication, 'min_slaves_good_slaves', 1, true) then return {'done'} end
local mine, since = string.match(candidate or '', '^(%S+) (%d+)$')
local young = since and now >= since + 0 and now - since < 1000000
if witness == '' then
  if young then return {'again'} end
  redis.call('HSET', KEYS[1], 'candidate', run .. nonce .. ' ' .. text(now))
  return {'candidate'}
end
-- guard: open_nonce
if mine ~= run .. nonce then return {'again'} end
-- guard: open_young
if not young then return {'again'} end
-- A whole wait begins, by the rule of check_epoch.lua.
local waits = witness == 'known' and gate(now)
-- guard: open_known
if waits then return type(waits) == 'table' and waits or {'done'} end
-- include since.lua
-- `from` stays: nothing that it waits for ends later than what the uptime has waited for.
redis.call('HSET', KEYS[1], 'since', since, 'run', run, 'replid', replid, 'from', from or '0', 'span', text(span),
  'longest', stored_longest, 'quarantine', stored_quarantine, 'version', VERSION)
return {'done'}
