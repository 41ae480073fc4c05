-- Takes the lock for an owner where nothing can be said against it, nor against its lease and its floor. Returns
-- the token, or nil where it is not as simple. What is in the way, such as a queue or a tombstone, is the
-- caller's to see.
local function take(owner, label, lease, floor)
  local text, longest = open()
  if not text or (floor or 0) + 0 >= text + 0 or lease * 1000 > longest then return nil end
  -- Refused where memory is short: the long way of a release frees the lock first.
  if type(redis.pcall('HSET', KEYS[1], 'mark', text)) ~= 'number' then return nil end
  redis.call('SET', KEYS[2], owner .. ' ' .. text .. ' 0 ' .. label, 'PX', lease)
  return text
end
