-- Whether the floor of a request, or an entry of Redlock, is a reader's: it has a 0 in front.
local function is_reader(floor) return string.find(floor, '^0%d') ~= nil end
