-- Creates or changes the store's settings.
-- ARGV: 5 1 for a first use, 2 to set the tokens back, or 0   6 longest lease or ''   7 quarantine on, off or ''
-- Answer: {'set', longest lease, quarantine, grants in}
local now = clock()
local e = redis.call('HMGET', KEYS[1], 'run', 'replid', 'from', 'span', 'longest', 'quarantine')
local run, replid = identity()
local known = e[1] == run and e[2] == replid
local old = e[5] or ARGV[3]
local longest = ARGV[6] ~= '' and ARGV[6] or old
local quarantine = ARGV[7] ~= '' and ARGV[7] or e[6] or ARGV[4]
local from, span = tonumber(e[3] or 0), tonumber(e[4] or 0)
local why = nil
if ARGV[5] == '2' then
  why = 'the tokens were set back'
elseif not known then
  why = e[1] and 'the server restarted or changed its role' or 'the store is new'
elseif e[5] ~= longest then
  why = 'the longest lease was changed'
elseif e[6] ~= quarantine and quarantine == 'on' then
  -- While it was off, data may have been lost, and nobody has waited since.
  why = 'the quarantine was turned on'
end
if why then
  span = math.max(span, math.max(tonumber(old), tonumber(longest)) + (tonumber(ARGV[#ARGV]) or 0))
  -- A place that is not heard of dies in this time; it may have asked for the old lease.
  if tonumber(longest) < tonumber(old) then span = math.max(span, LIFE_US) end
  from = now + span
  redis.call('HSET', KEYS[1], 'why', why)
elseif from - now > span then
  from = now + span
end
if ARGV[5] == '1' then
  -- Nobody holds a lock, by the operator's word: no longer lease of before is to be waited out.
  span = longest + (tonumber(ARGV[#ARGV]) or 0)
end
-- A wait that runs with the quarantine off is an operator's, and is not cut short by an init that changes nothing.
if ARGV[5] == '1' or (ARGV[5] == '0' and quarantine == 'off'
  and not (known and (e[5] ~= longest or e[6] == 'off'))) then
  from = 0
end
redis.call('HSET', KEYS[1], 'run', run, 'replid', replid, 'from', text(from), 'span', text(span),
  'longest', longest, 'quarantine', quarantine)
if ARGV[5] == '2' then
  -- The clock is past all tokens that were ahead of it by no more than they may when grants begin again.
  local marks = {'mark', 'top'}
  -- Redlock's, by the names of its script.
  for at = 0, 1023 do marks[#marks + 1] = 'mark' .. at end
  redis.call('HDEL', KEYS[1], unpack(marks))
end
return {'set', longest, quarantine, text(math.max(0, from - now))}
