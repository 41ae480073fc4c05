-- The common case of acquire.lua, in front of it, since to define functions costs more than to take a
-- free lock: this epoch, no quarantine, and no record, queue, turn or tombstone in the way. Any doubt
-- goes the long way. KEYS and ARGV are those of acquire.lua.
do
  local e = redis.call('HMGET', KEYS[1], 'run', 'replid', 'longest', 'quarantine', 'from', 'clock',
    ARGV[13], 'top')
  if e[1] == ARGV[1] and e[2] == ARGV[2] and e[3] == ARGV[3] and e[4] == ARGV[4]
    and redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[4], KEYS[5]) == 0 then
    local time = redis.call('TIME')
    local now, bound = time[1] * 1000000 + time[2], tonumber(ARGV[10])
    if tonumber(e[5]) <= now and (tonumber(e[6]) or 0) <= now and tonumber(ARGV[14]) - bound <= now and now <= tonumber(ARGV[12])
      and tonumber(ARGV[8]) < now and ARGV[6] * 1000 <= tonumber(ARGV[3]) then
      local number = math.min(math.max(tonumber(ARGV[9]), now - bound), now + bound)
      number = math.max(number, (tonumber(e[7]) or 0) + 1, ARGV[8] + 1)
      if number <= 9007199254740991 then
        local text, stamp = string.format('%.0f', number), string.format('%.0f', now)
        local top = number > (tonumber(e[8]) or 0) and text or e[8]
        redis.call('HSET', KEYS[1], ARGV[13], text, 'top', top, 'clock', stamp)
        redis.call('SET', KEYS[2], table.concat({ARGV[5], text, '0', ARGV[11], ARGV[7]}, ' '),
          'PX', ARGV[6])
        return {'ours', stamp, text, 0}
      end
    end
  end
end
