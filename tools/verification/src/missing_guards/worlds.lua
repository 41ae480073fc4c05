-- Makes two worlds with the same random state, and the same random request in both: in the first by
-- the script as clients send it, which begins with its short way; in the second by the long way
-- alone.
--
-- Before this text stand the scripts, as functions of `redis`, KEYS and ARGV. After it stand the
-- states and requests of a store, and as the last line: return run().
-- ARGV: 1 seed
-- Answer of `run`: {kind of the request, 'short' if the short way answered, how the worlds differ
--       or ''}

math.randomseed(tonumber(ARGV[1]))
local random = math.random
local function text(number) return string.format('%.0f', number) end
local function pick(...) return (select(random(select('#', ...)), ...)) end
local function one_in(count) return random(count) == 1 end

-- The clock of both worlds. It stands still, while the server's clock goes on during a script.
local time = redis.call('TIME')
local NOW, NOW_MS = time[1] * 1000000 + time[2], math.floor((time[1] * 1000000 + time[2]) / 1000)
local RUN, REPLID = string.rep('a', 40), string.rep('b', 40)
-- The server's INFO. Its run id is the one that the connection knows.
local INFO = 'run_id:' .. RUN .. '\r\nmaster_replid:' .. (one_in(10) and string.rep('c', 40) or REPLID) .. '\r\n'

-- A server with the clock above, which records what is published.
local function world(base)
  local each, told = {base = base}, {}
  local function call(way, command, ...)
    local words = {...}
    -- Redlock's long way asks so.
    if command == 'HMGET' and words[3] == 'replid' and words[4] == 'from' then each.long = true end
    if command == 'TIME' then return {time[1], time[2]} end
    if command == 'INFO' then return INFO end
    if command == 'PUBLISH' or command == 'SPUBLISH' then
      told[#told + 1] = command .. ' ' .. table.concat(words, ' ')
      return 0
    end
    if command == 'PTTL' then
      local ends = way('PEXPIRETIME', words[1])
      return ends < 0 and ends or ends - NOW_MS
    end
    if command == 'PEXPIRE' then command, words[2] = 'PEXPIREAT', text(NOW_MS + words[2]) end
    if command == 'SET' and words[3] == 'PX' then words[3], words[4] = 'PXAT', text(NOW_MS + words[4]) end
    return way(command, unpack(words))
  end
  each.told = told
  each.redis = {
    call = function(...) return call(redis.call, ...) end,
    pcall = function(...) return call(redis.pcall, ...) end,
  }
  return each
end

local worlds = {world('short:{0}:'), world('long:{0}:')}
local function both(command, key, ...)
  for _, each in ipairs(worlds) do redis.call(command, each.base .. key, ...) end
end

-- Owners: some hold the lock, some wait for it, some send the request.
local OWNERS = {}
for at = 1, 14 do OWNERS[at] = string.format('%x', at):rep(32) end
local function label() return pick('label', 'host a 17', 'x  y ', '0 1') end
local function channel() return 'w:{0}:' .. pick('push', 'spush') .. ':7' end

local function shown(value)
  if type(value) ~= 'table' then return tostring(value) end
  local parts = {}
  for at = 1, #value do parts[at] = shown(value[at]) end
  return '{' .. table.concat(parts, ', ') .. '}'
end

-- The value of a key of any type. `masked` hides what may differ: 'tokens', or only 'watermarks'.
local function content(key, masked)
  local kind = redis.call('TYPE', key).ok
  if kind == 'string' then
    local value = redis.call('GET', key)
    return masked == 'tokens' and string.gsub(value, '^(%x+) %d+ ', '%1 # ') or value
  elseif kind == 'list' then
    return shown(redis.call('LRANGE', key, 0, -1))
  elseif kind == 'zset' then
    return shown(redis.call('ZRANGE', key, 0, -1, 'WITHSCORES'))
  end
  local fields, lines = redis.call('HGETALL', key), {}
  for at = 1, #fields, 2 do
    local watermark = string.find(fields[at], '^mark') or fields[at] == 'top'
    if not (masked and watermark) then lines[#lines + 1] = fields[at] .. '=' .. fields[at + 1] end
  end
  table.sort(lines)
  return shown(lines)
end

-- All keys of a world, each with its expiry.
local function data(each, masked)
  local found = redis.call('KEYS', each.base .. '*')
  table.sort(found)
  for at, key in ipairs(found) do
    local ends = redis.call('PEXPIRETIME', key)
    found[at] = string.format('%s (%s): %s', string.sub(key, #each.base + 1), ends < 0 and 'stays' or ends - NOW_MS,
      content(key, masked))
  end
  return table.concat(found, '\n')
end

local function keys(each, name, owner)
  return {each.base .. 'epoch', each.base .. 'lock:' .. name, each.base .. 'queue:' .. name,
    each.base .. 'entries:' .. name, each.base .. 'gone:' .. owner}
end

local function ask(way, each, name, owner, own)
  local done, answer = pcall(way, each.redis, keys(each, name, owner), {unpack(own)})
  if done then return answer end
  return {'error', type(answer) == 'table' and answer.err or tostring(answer)}
end

-- How the worlds differ in their answers, in what was published, and in their data; '' if they are
-- the same.
local function differs(words, answers, masked)
  for at, each in ipairs(worlds) do
    for message = 1, #each.told do
      -- The token in a push.
      if masked == 'tokens' then each.told[message] = string.gsub(each.told[message], ' %d+ (%d+)$', ' # %1') end
    end
    answers[at] = table.concat({shown(answers[at]), table.concat(each.told, '\n'), data(each, masked)}, '\n')
  end
  if answers[1] == answers[2] then return '' end
  return words .. '\nSHORT: ' .. answers[1] .. '\nLONG: ' .. answers[2]
end


local function finish(kind, how, difference)
  for _, each in ipairs(worlds) do
    for _, key in ipairs(redis.call('KEYS', each.base .. '*')) do redis.call('DEL', key) end
  end
  return {kind, how, difference}
end
