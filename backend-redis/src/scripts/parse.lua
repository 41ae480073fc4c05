-- The parts of a record; nil if it cannot be read. Such a record belongs to no owner, and holds the
-- lock until it expires.
local function parse(record)
  local owner, token, state, label = string.match(record or '', '^(%x+) (%d+) ([012]) ([^\n]*)')
  if not owner or #owner ~= 32 or tonumber(token) > 9007199254740991 then return nil end
  return owner, tonumber(token), state, label
end
