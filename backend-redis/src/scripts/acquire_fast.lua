-- The common case of acquire.lua, in front of it, since to define functions costs more than to take a
-- free lock: this epoch, no quarantine, and neither a record, a queue nor a tombstone in the way. Any
-- doubt goes the long way. KEYS and ARGV are those of acquire.lua.
do
  local e = redis.call('HMGET', KEYS[1], 'run', 'replid', 'longest', 'quarantine', 'from', 'mark')
  if e[1] == ARGV[1] and e[2] == ARGV[2] and e[3] == ARGV[3] and e[4] == ARGV[4]
    and (ARGV[#ARGV] == ''
      or string.find(redis.call('INFO', 'replication'), 'master_replid:' .. e[2], 1, true))
    and redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[5]) == 0 then
    local time, longest = redis.call('TIME'), tonumber(ARGV[3])
    local now, floor = time[1] * 1000000 + time[2], tonumber(ARGV[8])
    local token = math.max(now, (tonumber(e[6]) or 0) + 1, floor + 1)
    if tonumber(e[5]) <= now and floor <= now + longest and ARGV[6] * 1000 <= longest
      and token <= 9007199254740991 then
      local text = string.format('%.0f', token)
      redis.call('HSET', KEYS[1], 'mark', text)
      redis.call('SET', KEYS[2], ARGV[5] .. ' ' .. text .. ' 0 ' .. ARGV[7], 'PX', ARGV[6])
      return {'granted', text}
    end
  end
end
