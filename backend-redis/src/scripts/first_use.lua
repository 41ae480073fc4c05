-- Opens a store that nobody has used since the server's start. It grants one longest lease after
-- that start: see store/first_use.rs for the steps. A candidate is in a field of the epoch record
-- that no other script reads, so it grants nothing.
-- KEYS: 1 epoch record
-- epoch args: nonce witness
--       witness: '' to write a candidate; then whether the witness was there, 'known' or 'unknown'
-- Answer: {'candidate'} if it was written; {'again'} if that of another is there; {'done'} if the
--       record is of this run, or if the rule of check_epoch.lua holds; {'late'}; or the refusals
--       of check_epoch.lua and `unknown`

-- include epoch
local now = clock()
local last_run, candidate, from, stored_longest, stored_quarantine, span, version = unpack(redis.call(
  'HMGET', KEYS[1], 'run', 'candidate', 'from', 'longest', 'quarantine', 'span', 'version'))
if now > deadline + 0 then return {'late'} end
local refusal = unknown(version, stored_longest)
if refusal then return refusal end
local server, replication = redis.call('INFO', 'server'), redis.call('INFO', 'replication')
local true_run = string.match(server, 'run_id:(%x+)')
-- A later record than that of this client's last look.
-- guard: open_over | S1 | a_new_role_in_this_run
if last_run == true_run then return {'done'} end
-- guard: open_run | S1 | an_open_of_another_run
if run ~= true_run then return {'stale'} end
stored_longest, stored_quarantine = stored_longest or longest, stored_quarantine or quarantine
span = math.max(tonumber(span or 0), tonumber(stored_longest), tonumber(longest))
-- No replica, which may have been promoted, and no master before this one.
for _, line in ipairs({'connected_slaves:0', 'repl_backlog_active:0', 'master_replid2:' .. string.rep('0', 40)}) do
  -- guard: open_alone | S1 | a_former_replica
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
-- guard: open_nonce | S1 | the_candidate_of_another
if mine ~= run .. nonce then return {'again'} end
-- guard: open_young | S1 | an_old_candidate
if not young then return {'again'} end
-- A whole wait begins, by the rule of check_epoch.lua.
local waits = witness == 'known' and gate(now)
-- guard: open_known | S1 | a_known_witness
if waits then return type(waits) == 'table' and waits or {'done'} end
-- include since
-- Leases that were granted before the start end one span after it. INFO shows whole seconds.
local left = span + 2000000 - string.match(server, 'uptime_in_seconds:(%d+)') * 1000000
local opens = left > 0 and stored_quarantine == 'on' and now + math.min(left, span) or 0
-- `from` stays, if it is later: an operator's `init` may have set it.
from = tonumber(from or 0)
-- guard: open_uptime | S1 | a_new_server | if false then
if opens > from then
  from = opens
  local how = last_run and 'restarted' or 'started'
  redis.call('HSET', KEYS[1], 'why', 'the server ' .. how .. ' less than a longest lease ago, and may have lost locks')
end
redis.call('HSET', KEYS[1], 'since', since, 'run', run, 'replid', replid, 'from', text(from), 'span', text(span),
  'longest', stored_longest, 'quarantine', stored_quarantine, 'version', VERSION)
return {'done'}
