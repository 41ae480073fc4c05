-- One attempt, with a place in the queue if it is refused and one is wanted.
-- ARGV: 5 owner   6 lease ms   7 label   8 floor   9 channel for pushes, or '' for no place
local owner, lease, label, floor, channel = ARGV[5], tonumber(ARGV[6]), ARGV[7], ARGV[8], ARGV[9]
local now = clock()
local record = read(KEYS[2])
if record and string.sub(record, 1, 32) == owner
  -- A client that knows an old longest lease is told of the new one below.
  and lease * 1000 <= (redis.call('HGET', KEYS[1], 'longest') or ARGV[3]) + 0 then
  local _, token, state = parse(record)
  if state == '2' then
    hold_anew(owner, token, '0', label, lease)
    return {'granted', text(token)}
  elseif state == '0' then
    -- A repeat sets the lease anew. It may be a late one: it never shortens.
    if redis.call('PTTL', KEYS[2]) < lease then redis.call('PEXPIRE', KEYS[2], lease) end
    return {'granted', text(token)}
  end
end
if late(now) then return {'late'} end
local mark, refusal = gate(now)
if not mark then return refusal end
if tonumber(floor) > now + tonumber(ARGV[3]) then return {'floor', text(now + tonumber(ARGV[3]))} end
if lease * 1000 > tonumber(ARGV[3]) then return {'lease'} end
if redis.call('EXISTS', KEYS[5]) == 1 then return busy(owner, nil, mark, record) end
if not record then
  -- Nobody barges past a live place. The asker's own one counts as heard of.
  if redis.call('EXISTS', KEYS[3]) == 1 then
    heard(now, owner)
    record = pass_on(now, mark, owner)
    if record and string.sub(record, 1, 32) == owner then
      local _, token = parse(record)
      return {'granted', text(token)}
    end
  end
  if not record then
    local token = mint(now, mark, tonumber(floor))
    if not token then return {'exhausted'} end
    hold(owner, token, '0', label, lease)
    return {'granted', text(token)}
  end
end
local place = channel ~= '' and table.concat({lease, floor, channel, label}, ' ') or nil
return busy(owner, heard(now, owner, place), mark, record)
