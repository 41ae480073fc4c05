-- A free lock costs a pair of one task a fifth less with this file (377 and 454 µs on five nodes on
-- one machine). The common case of acquire.lua: same epoch, no quarantine, and no record, queue,
-- turn or tombstone. It comes first, since defining functions costs more than taking a free lock.
-- Every case in doubt goes the long way. KEYS and arguments are those of acquire.lua.
-- include version
do
  local e = redis.call('HMGET', KEYS[1], 'run', 'replid', 'longest', 'quarantine', 'from', 'clock',
    watermark, 'top', 'crowd', 'version')
  if e[3] == longest and e[4] == quarantine
    -- guard: short_epoch
    and e[1] == run and e[2] == replid
    -- guard: short_version
    and e[10] == VERSION
  then
    local time = redis.call('TIME')
    local now, bound, floor = time[1] * 1000000 + time[2], bound + 0, floor + 0
    -- guard: short_lease
    if lease * 1000 <= longest + 0
      -- guard: short_quarantine
      and e[5] + 0 <= now
      -- guard: short_clock
      and (e[6] or 0) + 0 <= now
      -- guard: short_behind
      and estimated - bound <= now
      -- guard: short_late
      and now <= late_after + 0
      -- guard: short_floor
      and floor < now
      -- Without a crowd there are no entries and no tombstones: see acquire.lua.
      -- guard: short_crowd
      and ((e[9] or 0) + 0 <= now or redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[4], KEYS[5]) == 0)
    then
      -- The stored token: see acquire.lua.
      local number, text, stamp = proposed + 0, proposed, string.format('%.0f', now)
      -- guard: short_watermark
      local least = math.max((e[7] or 0) + 0, floor)
      if number <= least or number < now - bound or number > now + bound then
        number = math.max(math.min(math.max(number, now - bound), now + bound), least + 1)
        text = string.format('%.0f', number)
      end
      if number <= 9007199254740991 then
        local top = number > (e[8] or 0) + 0 and text or e[8]
        -- guard: short_notes
        redis.call('HSET', KEYS[1], watermark, text, 'top', top, 'clock', stamp)
        local record = owner .. ' ' .. text .. ' 0 ' .. attempt .. ' ' .. label
        -- guard: short_held
        if redis.call('SET', KEYS[2], record, 'PX', lease, 'NX') then
          return {'ours', stamp, text, 0}
        end
      end
    end
  end
end
