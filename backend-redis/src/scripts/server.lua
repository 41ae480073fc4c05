-- What a script or a client learns of the server.

-- part: run_id
-- The run id of the server, as a script sees it. `identity` reads it in the same way.
-- Answer: the run id, or '' if INFO shows none.
return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''

-- part: witness
-- A client of leasehold has used the prefix PREFIX in database DATABASE since this server's start.
return 1

-- part: server_change
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
