-- The server's identity as scripts see it, and what a new identity means.

local function identity()
  local server, replication = redis.call('INFO', 'server'), redis.call('INFO', 'replication')
  return string.match(server, 'run_id:(%x+)'), string.match(replication, 'master_replid:(%x+)')
end

-- Why an epoch began although the record is there.
local function new_epoch(same_run)
  if not same_run then return 'the server restarted or changed its role' end
  return 'its first replica came, its last one left (redis-cli --rdb counts as one), or the server changed its role'
end
