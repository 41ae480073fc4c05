-- Gives a grant back and hands the lock to the first live place, in one step.
-- KEYS[5] is the tombstone of the next request's owner.
-- ARGV: 5 owner   6 ms to keep it, or ''
--       7 owner of the next request, or ''   8 its lease ms   9 label   10 floor   11 channel
-- Answer: {1 if it was held, the answer to the next request}
local now = clock()
local record = redis.call('GET', KEYS[2])
local owner, token, _, label = parse(record)
local mine = owner == ARGV[5]
if mine and ARGV[6] ~= '' then
  hold(owner, token, '1', label, ARGV[6])
elseif mine then
  redis.call('DEL', KEYS[2])
  record = false
end
local next_ = ARGV[7]
if next_ == '' and (record or redis.call('EXISTS', KEYS[3]) == 0) then
  return {mine and 1 or 0, false}
end
local mark, refusal = gate(now)
if not mark then return {mine and 1 or 0, next_ ~= '' and refusal or false} end
local placed = false
if next_ ~= '' and redis.call('EXISTS', KEYS[5]) == 0 then
  if tonumber(ARGV[10]) > now + tonumber(ARGV[3]) or ARGV[8] * 1000 > tonumber(ARGV[3]) then
    next_ = ''
  else
    placed = heard(now, next_, table.concat({ARGV[8], ARGV[10], ARGV[11], ARGV[9]}, ' '))
  end
end
if not record then record = try_pass_on(now, mark, next_) end
if next_ == '' then return {mine and 1 or 0, false} end
if record and string.sub(record, 1, 32) == next_ then
  local _, minted = parse(record)
  return {mine and 1 or 0, {'granted', text(minted)}}
end
return {mine and 1 or 0, busy(next_, placed, math.max(mark, token or 0))}
