-- Attempts and releases on one node of a quorum, by `acquire`, `free` and `batch`. `long_acquire`
-- has no common case in front.
local LONGEST, BOUND, LIFE_US, TURN_US = 30000000, 400000, 3000000, 100000
local function lease() return one_in(12) and 40000 or pick(1000, 1500, 20000, 30000) end
local function floor()
  local highest = NOW + LONGEST - 2 * BOUND
  return pick(0, 0, 0, 0, NOW - 5, NOW, NOW + 5, highest, highest + 1)
end
local function number() return random(1, 20) end
-- The owner of a lock that readers share. The readers are some of the last three owners.
local READERS = string.rep('0', 32)

-- Watermarks by name; two names share one.
local MARKS = {a = 'mark1', b = 'mark1', c = 'mark2', d = 'mark3', e = 'mark4', f = 'mark5'}
local marks, top = {}, 0
local crowded = false

local function epoch()
  if one_in(20) then return end
  local function or_other(value, other) return one_in(40) and other or value end
  both('HSET', 'epoch', 'run', or_other(RUN, 'd'), 'replid', or_other(REPLID, 'd'),
    'longest', or_other(text(LONGEST), '20000000'), 'quarantine', or_other('on', 'off'),
    'from', text(pick(0, 0, NOW - 1, NOW, one_in(8) and NOW + 1 or 0, one_in(8) and NOW + 2 * LONGEST or 0)),
    'span', text(LONGEST), 'version', or_other('1', '2'))
  if not one_in(4) then
    local ahead = one_in(4) and pick(BOUND, BOUND + 1) or 0
    both('HSET', 'epoch', 'clock', text(pick(NOW - 9, NOW - 9, NOW, NOW + ahead)))
  end
  for at = 1, 5 do
    if not one_in(4) then
      local mark = pick(NOW - 99, NOW - BOUND, NOW - 1, NOW, one_in(3) and NOW + 9 or 99, one_in(20) and 9007199254740991 or 99)
      marks['mark' .. at], top = mark, math.max(top, mark)
      both('HSET', 'epoch', 'mark' .. at, text(mark))
    end
  end
  if top > 0 then both('HSET', 'epoch', 'top', text(top)) end
end

local function queue(name, most)
  local owners, first = {}, nil
  for at = 1, 14 do owners[at] = OWNERS[at] end
  for _ = 1, random(0, most) do
    local owner = table.remove(owners, random(#owners))
    first, crowded = owner, true
    both('ZADD', 'queue:' .. name, text(random(1, 5)), owner)
    if not one_in(8) then
      local until_ = pick(NOW - 5, NOW, NOW + 1, NOW + 1000000, NOW + LIFE_US, NOW + LIFE_US + 1)
      both('HSET', 'entries:' .. name, owner, text(until_) .. pick(' r ', ' w ') .. channel())
    end
  end
  if first and one_in(2) then
    local whose = pick(first, first, READERS)
    both('HSET', 'entries:' .. name, 'turn', whose .. ' ' .. text(pick(NOW - 1, NOW, NOW + 1, NOW + TURN_US, NOW + TURN_US + 1)))
  end
  local ends = text(NOW_MS + 60000)
  both('PEXPIREAT', 'queue:' .. name, ends)
  both('PEXPIREAT', 'entries:' .. name, ends)
end

local function record(name)
  if one_in(3) then return end
  local token = text(math.max(1, (marks[MARKS[name]] or 0) - random(0, 30)))
  if one_in(4) then
    local count = random(3)
    local lines = {table.concat({READERS, token, '0', count, label()}, ' ')}
    for at = 12, 11 + count do lines[#lines + 1] = table.concat({OWNERS[at], token, text(number()), text(NOW_MS + pick(-5, 0, 1000, 20000))}, ' ') end
    both('SET', 'lock:' .. name, table.concat(lines, '\n'), 'PXAT', text(NOW_MS + pick(1000, 2000, 20000)))
    return
  end
  both('SET', 'lock:' .. name, table.concat({pick(unpack(OWNERS, 1, 6)), token, pick('0', '0', '1'), text(number()), label()}, ' '),
    'PXAT', text(NOW_MS + pick(1000, 2000, 20000)))
end

local function tombstones()
  for at = 1, 14 do
    if one_in(20) then
      crowded = true
      both('SET', 'gone:' .. OWNERS[at], text(number()), 'PXAT', text(NOW_MS + 60000))
    end
  end
end

-- The values that all attempts of one client share.
local PROPOSED = text(pick(NOW, NOW, NOW - 3, NOW + 3, NOW - 2 * BOUND, NOW + 2 * BOUND))
local LATE = text(one_in(20) and NOW - 1 or pick(NOW, NOW + 1000000))
local ESTIMATED = text(pick(NOW, NOW, NOW - 9, NOW + 9, NOW + BOUND, one_in(4) and NOW + BOUND + 1 or NOW, one_in(4) and NOW - BOUND - 1 or NOW))
local NUMBER = text(number())

local function attempt(each, way, name, owner, lease, label, floor, channel)
  local own = {RUN, REPLID, text(LONGEST), 'on', '', text(NOW + 30000000), owner, lease, label, floor, PROPOSED, text(BOUND), NUMBER,
    LATE, MARKS[name], ESTIMATED, channel, '3'}
  return ask(way, each, name, owner, own)
end

-- A watermark may be raised for a lock that turns out to be held.
local function watermarks_are_sound(each)
  local highest = 0
  for at = 1, 5 do
    local mark = tonumber(redis.call('HGET', each.base .. 'epoch', 'mark' .. at) or 0)
    if mark < (marks['mark' .. at] or 0) then return 'a watermark went back' end
    highest = math.max(highest, mark)
  end
  if tonumber(redis.call('HGET', each.base .. 'epoch', 'top') or 0) < highest then return 'top is below a watermark' end
  return ''
end

local function one_attempt(before, held)
  local owner, label, lease = pick(unpack(OWNERS)), label(), text(lease())
  local floor, channel = text(floor()), one_in(2) and channel() or ''
  local answers = {}
  for at, way in ipairs({acquire, long_acquire}) do
    answers[at] = attempt(worlds[at], way, 'a', owner, lease, label, floor, channel)
  end
  local words = shown({owner, lease, floor, channel, 'proposed', PROPOSED, 'late', LATE, 'estimated', ESTIMATED,
    'number', NUMBER})
  local difference = differs(words .. '\nBEFORE: ' .. before, answers, held and 'watermarks')
  return worlds[1].long and 'long' or 'short', difference
end

-- Mostly the holder. In a batch, no owner that may be a reader.
local function releaser(name, last)
  local held = redis.call('GET', worlds[1].base .. 'lock:' .. name)
  local holder = held and not one_in(6) and string.sub(held, 1, 32)
  return holder and holder ~= READERS and holder or pick(unpack(OWNERS, 1, last))
end

-- The answer to each job of a batch.
local function together(each, releases, attempts, label, one_lease)
  local keys = {each.base .. 'epoch'}
  local own = {RUN, REPLID, text(LONGEST), 'on', '', text(NOW + 30000000), text(BOUND), LATE, ESTIMATED, NUMBER, PROPOSED, label, text(#releases),
    one_lease or ''}
  for _, jobs in ipairs({releases, attempts}) do
    for _, job in ipairs(jobs) do
      keys[#keys + 1], own[#own + 1] = each.base .. 'lock:' .. job[1], job[2]
      if job[3] then own[#own + 1] = MARKS[job[1]] end
      if job[3] and not one_lease then own[#own + 1] = job[3] end
    end
  end
  local answer = batch(each.redis, keys, own)[3]
  if type(answer) ~= 'string' then return answer end
  local answers = {}
  for at = 1, #keys - 1 do answers[at] = at <= #releases and 1 or tonumber(answer) end
  return answers
end

-- The same jobs, each alone.
local function single(each, job)
  local name, owner, lease, label = unpack(job)
  if lease then return attempt(each, acquire, name, owner, lease, label, '0', '') end
  return ask(free, each, name, owner, {owner})[3]
end

local function told(answer) return type(answer) == 'table' and answer[1] or answer end

-- The batch, with the jobs that are not simple sent alone afterwards, compared with all jobs one by
-- one. Only numbers may differ, since the batch gives all its attempts the same number.
local function one_batch(before, _, names)
  local releases, attempts, jobs, batch_label, how, odd = {}, {}, {}, label(), 'long', ''
  local one_lease = one_in(2) and text(lease())
  for _, name in ipairs(names) do
    if one_in(2) then releases[#releases + 1] = {name, releaser(name, 11)} end
  end
  for at = 1, random(0, 7) do
    attempts[at] = {pick(unpack(names)), OWNERS[at + 4], one_lease or text(lease()), batch_label}
  end
  for _, part in ipairs({releases, attempts}) do
    for _, job in ipairs(part) do jobs[#jobs + 1] = job end
  end
  if #jobs == 0 then return how, '' end
  local answered, answers = together(worlds[1], releases, attempts, batch_label, one_lease), {{}, {}}
  -- Jobs that are not simple are sent alone, after the rest.
  for _, plain in ipairs({true, false}) do
    for at, job in ipairs(jobs) do
      if (answered[at] ~= -1) == plain then
        local answer = answered[at]
        if not plain then
          answer = single(worlds[1], job)
        else
          how, answer = 'short', job[3] and {'ours', '', text(answer), 0} or answer
        end
        -- Not a repeat, which is answered with the earlier number.
        if told(answer) == 'ours' and answer[4] == 0 then
          local number, least = tonumber(answer[3]), marks[MARKS[job[1]]] or 0
          local mark = tonumber(redis.call('HGET', worlds[1].base .. 'epoch', MARKS[job[1]]))
          if number <= least or number > mark or number < NOW - BOUND or number > math.max(NOW + BOUND, least) + #jobs then
            odd = 'a number that is not new, or off the clock: ' .. answer[3]
          end
        end
        answers[1][at], answers[2][at] = told(answer), told(single(worlds[2], job))
      end
    end
  end
  local difference = differs(shown(jobs) .. '\nBEFORE: ' .. before, answers, 'tokens')
  return how, difference == '' and odd or difference
end

local function run()
  epoch()
  tombstones()
  local kind = pick('attempt', 'batch')
  local names = kind == 'batch' and {'a', 'b', 'c', 'd', 'e', 'f'} or {'a'}
  for _, name in ipairs(names) do
    record(name)
    if one_in(#names > 1 and 5 or 2) then queue(name, 4) end
  end
  -- Set if there is an entry or a tombstone. It may also be a leftover.
  if crowded or one_in(3) then
    both('HSET', 'epoch', 'crowd', text(NOW + pick(1, 61000000)))
  elseif one_in(2) then
    both('HSET', 'epoch', 'crowd', text(NOW - pick(0, 1)))
  end
  local ways = {attempt = one_attempt, batch = one_batch}
  local held = redis.call('EXISTS', worlds[1].base .. 'lock:a') == 1
  local how, difference = ways[kind](data(worlds[1]), held, names)
  if difference == '' then difference = watermarks_are_sound(worlds[1]) end
  return finish(kind, how, difference)
end
return run()
