-- Since when the server has lost no record of a name, for an epoch that begins. Before it stand
-- `now` and `text`. A restart loses none if the last one was flushed before it was answered, and no
-- replica was promoted. Otherwise it may have, up to now.
local since, flushed = unpack(redis.call('HMGET', KEYS[1], 'since', 'flushed'))
-- guard: since_flushed
if flushed ~= 'yes' then since = nil end
local replication = redis.call('INFO', 'replication')
for _, line in ipairs({'connected_slaves:0', 'repl_backlog_active:0', 'master_replid2:' .. string.rep('0', 40)}) do
  -- guard: since_alone
  if not string.find(replication, line .. '\r', 1, true) then since = nil end
end
since = since or text(now)
