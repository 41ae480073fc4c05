-- The run id of the server, as a script sees it. server_change.lua reads it in the same way.
-- Answer: the run id, or '' if INFO shows none.
return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
