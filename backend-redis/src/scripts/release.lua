-- Gives a grant back and hands the lock to the first live place, in one step.
-- KEYS[5] is the tombstone of the next request's owner.
-- ARGV: 5 owner   and, unless that is all of this script's own:
--       6 ms to keep it, or ''
--       7 owner of the next request, or ''   8 its lease ms   9 label   10 floor   11 channel
-- Answer: 0 if it was not held, 1 if it was, or the token that the next request was granted in its
-- place; with any other answer to a next request {0 or 1, that answer}.
local keep, next_ = '', ''
if #ARGV > 7 then keep, next_ = ARGV[6], ARGV[7] end
local now = clock()
local record = read(KEYS[2])
local owner, token, state, label = parse(record)
local mine = owner == ARGV[5] and 1 or 0
if next_ ~= '' and owner == next_ and state ~= '1' then
  -- A repeat: the first try, or whoever came between, has handed the lock on. It gets its whole lease,
  -- as in acquire.lua.
  hold_anew(owner, token, '0', label, math.max(redis.call('PTTL', KEYS[2]), ARGV[8] + 0))
  return {1, {'granted', text(token)}}
elseif mine == 1 and keep ~= '' then
  hold_anew(owner, token, '1', label, keep)
elseif mine == 1 then
  redis.call('DEL', KEYS[2])
  record = false
end
if next_ == '' and (record or redis.call('EXISTS', KEYS[3]) == 0) then return mine end
local mark, refusal = gate(now)
if not mark then return next_ ~= '' and {mine, refusal} or mine end
local placed = false
if next_ ~= '' and redis.call('EXISTS', KEYS[5]) == 0 then
  -- Then it asks for itself.
  if late(now) or tonumber(ARGV[10]) > now + tonumber(ARGV[3])
    or ARGV[8] * 1000 > tonumber(ARGV[3]) then
    next_ = ''
  else
    local done
    done, placed = try(heard, now, next_, table.concat({ARGV[8], ARGV[10], ARGV[11], ARGV[9]}, ' '))
    if not done then next_ = '' end
  end
end
local passed = not record
if passed then
  local done
  done, record = try(pass_on, now, mark, next_)
end
if next_ == '' then return mine end
if passed and record and string.sub(record, 1, 32) == next_ then
  local _, minted = parse(record)
  return mine == 1 and text(minted) or {mine, {'granted', text(minted)}}
end
return {mine, busy(next_, placed, math.max(mark, token or 0), record)}
