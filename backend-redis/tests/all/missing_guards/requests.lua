-- Attempts and releases on one server, by `acquire`, `release` and `batch`. `long_acquire` and
-- `long_release` are only the long ways.
local LONGEST, LIFE_US = 30000000, 3000000
local function lease() return one_in(12) and 40000 or pick(1000, 1500, 20000, 30000) end
local function floor() return pick(0, 0, 0, NOW - 5, NOW, NOW + 5, NOW + LONGEST, NOW + LONGEST + 1) end
local function mode() return one_in(5) and 'r' or '' end
-- The watermark is above the token of every record.
local MARK = 0
local function epoch()
  if one_in(20) then return end
  local function or_other(value, other) return one_in(40) and other or value end
  both('HSET', 'epoch', 'run', or_other(RUN, 'd'), 'replid', or_other(REPLID, 'd'),
    'longest', or_other(text(LONGEST), '20000000'), 'quarantine', or_other('on', 'off'),
    'from', text(pick(0, 0, NOW - 1, NOW, one_in(8) and NOW + 1 or 0, one_in(8) and NOW + 2 * LONGEST or 0)),
    'span', text(LONGEST), 'version', or_other('1', '2'))
  if not one_in(5) then
    MARK = pick(NOW - 99, NOW - 99, NOW - 1, one_in(3) and NOW or 99, one_in(3) and NOW + 99 or 99,
      one_in(20) and 9007199254740991 or 99)
    both('HSET', 'epoch', 'mark', text(MARK))
  end
end

-- The entries of a name are those of its queue. One of them may be missing.
local function queue(name, most)
  local owners, count = {}, random(0, most)
  for at = 1, 14 do owners[at] = OWNERS[at] end
  for _ = 1, count do
    local owner = table.remove(owners, random(#owners))
    both('RPUSH', 'queue:' .. name, owner)
    if not one_in(8) then
      local until_ = pick(NOW - 5, NOW, NOW + 1, NOW + 1000000, NOW + LIFE_US, NOW + LIFE_US + 1)
      local lowest = pick(0, 0, NOW - 5, NOW, NOW + 5, NOW + LONGEST)
      local mode = one_in(5) and 'r' or 'w'
      local words = {text(until_), mode, pick(1000, 20000), text(lowest), channel(), label()}
      both('HSET', 'entries:' .. name, owner, table.concat(words, ' '))
    end
  end
  local ends = text(NOW_MS + pick(20000, 29999, 30000, 60000))
  both('PEXPIREAT', 'queue:' .. name, ends)
  both('PEXPIREAT', 'entries:' .. name, ends)
end

local function record(name)
  if one_in(3) then return end
  local token = text(math.max(1, MARK - random(0, 30)))
  local state = pick('0', '0', '0', '1', '2')
  if one_in(6) then
    local readers, latest = '', NOW_MS
    for at = 1, random(3) do
      local ends = NOW_MS + pick(-5, -1, 0, 1000, 2000, 20000)
      readers, latest = readers .. ' ' .. OWNERS[at] .. ':' .. text(ends), math.max(latest, ends)
    end
    both('SET', 'lock:' .. name, string.rep('0', 32) .. ' ' .. token .. ' 0 ' .. label() .. '\n' .. readers,
      'PXAT', text(latest + 1))
    return
  end
  both('SET', 'lock:' .. name, pick(unpack(OWNERS, 1, 4)) .. ' ' .. token .. ' ' .. state .. ' ' .. label(),
    'PXAT', text(NOW_MS + pick(1000, 2000, 20000)))
end

local function tombstones()
  for at = 1, 14 do
    if one_in(10) then both('SET', 'gone:' .. OWNERS[at], '1', 'PXAT', text(NOW_MS + 60000)) end
  end
end

local LATE = text(one_in(20) and NOW - 1 or pick(NOW, NOW + 30000000))
local MARGIN = pick('', '', '0', '3000000')
-- All arguments of a script that may grant, with its own.
local function in_epoch(...) return {RUN, REPLID, text(LONGEST), 'on', MARGIN, LATE, ...} end

-- An answer in one form, whichever way gave it.
local function of_acquire(answer)
  return type(answer) == 'string' and {'granted', answer} or answer
end

local function of_release(answer)
  if type(answer) == 'number' then return {answer} end
  if type(answer) == 'string' then answer = {'granted', answer} end
  return type(answer[1]) == 'string' and {1, answer} or answer
end

-- The short ways answer with one text or number.
local function plainly(answer) return type(answer) ~= 'table' and 'short' or 'long' end

local function attempt()
  local owner = pick(unpack(OWNERS))
  if one_in(2) then return owner, in_epoch(owner, text(lease()), label()) end
  return owner, in_epoch(owner, text(lease()), label(), text(floor()), one_in(2) and channel() or '', mode())
end

local function one_attempt()
  if one_in(3) then record('a') end
  if one_in(3) then queue('a', 11) end
  local owner, own = attempt()
  local words = shown(own) .. '\nBEFORE: ' .. data(worlds[1])
  local short = ask(acquire, worlds[1], 'a', owner, own)
  local long = ask(long_acquire, worlds[2], 'a', owner, own)
  return plainly(short), differs(words, {of_acquire(short), of_acquire(long)})
end

-- Mostly the holder. Readers are among the first three owners; `first` is the first owner to draw
-- from.
local function releaser(name, first)
  local held = redis.call('GET', worlds[1].base .. 'lock:' .. name)
  -- No client draws the owner that stands for readers.
  local owner = held and string.sub(held, 1, 32)
  local drawn = owner and string.find(owner, '[^0]')
  return drawn and not one_in(6) and owner or pick(unpack(OWNERS, first or 1))
end

local function one_release()
  record('a')
  if not one_in(3) then queue('a', 11) end
  local owner = releaser('a')
  local own, next_ = in_epoch(owner, one_in(6) and '5000' or nil), owner
  if not one_in(3) then
    repeat next_ = pick(unpack(OWNERS)) until next_ ~= owner
    own = in_epoch(owner, one_in(6) and '5000' or '', next_, text(lease()), label(),
      one_in(2) and '' or text(floor()), channel(), mode())
  end
  local words = shown(own) .. '\nBEFORE: ' .. data(worlds[1])
  local short = ask(release, worlds[1], 'a', next_, own)
  local long = ask(long_release, worlds[2], 'a', next_, own)
  return plainly(short), differs(words, {of_release(short), of_release(long)})
end

-- One job of a batch, alone.
local function single(each, job)
  local name, owner, lease, label = unpack(job)
  if lease then return of_acquire(ask(acquire, each, name, owner, in_epoch(owner, lease, label))) end
  return of_release(ask(release, each, name, owner, in_epoch(owner)))[1]
end

local function together(each, releases, attempts, label)
  local keys, own = {each.base .. 'epoch'}, in_epoch(text(#releases), label)
  for _, jobs in ipairs({releases, attempts}) do
    for _, kind in ipairs({'lock:', 'queue:'}) do
      for _, job in ipairs(jobs) do keys[#keys + 1] = each.base .. kind .. job[1] end
    end
    for _, job in ipairs(jobs) do
      own[#own + 1], own[#own + 2] = job[2], job[3]
    end
  end
  for _, job in ipairs(attempts) do keys[#keys + 1] = each.base .. 'gone:' .. job[2] end
  return batch(each.redis, keys, own)
end

local function told(answer) return type(answer) == 'table' and answer[1] or answer end

-- The batch, with the jobs that are not simple sent alone afterwards, compared with all jobs one by
-- one. Only tokens may differ, since the batch makes them in another order.
local function one_batch()
  local NAMES, how, odd = {'a', 'b', 'c', 'd', 'e', 'f'}, 'long', ''
  local releases, attempts, jobs, batch_label = {}, {}, {}, label()
  for _, name in ipairs(NAMES) do
    record(name)
    if one_in(4) then queue(name, 3) end
    if one_in(2) then releases[#releases + 1] = {name, releaser(name, 4)} end
  end
  for at = 1, random(0, 7) do
    -- No owner that may hold a lock: a repeat alone checks no epoch, and so begins none.
    attempts[at] = {pick(unpack(NAMES)), OWNERS[at + 4], text(lease()), batch_label}
  end
  for _, part in ipairs({releases, attempts}) do
    for _, job in ipairs(part) do jobs[#jobs + 1] = job end
  end
  local before, answers, tokens = data(worlds[1]), {{}, {}}, {}
  local answered = #jobs > 0 and together(worlds[1], releases, attempts, batch_label)
  -- Jobs that are not simple are sent alone, after the rest.
  for _, plain in ipairs({true, false}) do
    for at, job in ipairs(jobs) do
      if (answered[at] ~= -1) == plain then
        local answer = answered[at]
        if not plain then
          answer = single(worlds[1], job)
        else
          how, answer = 'short', job[3] and {'granted', text(answer)} or answer
        end
        -- A repeat is answered with the earlier grant.
        if told(answer) == 'granted' and not string.find(before, ' ' .. answer[2] .. ' ', 1, true) then
          local token, highest = tonumber(answer[2]), tonumber(redis.call('HGET', worlds[1].base .. 'epoch', 'mark') or 0)
          -- Readers that got in together have the same token.
          local shared = string.find(redis.call('GET', worlds[1].base .. 'lock:' .. job[1]) or '', '\n', 1, true)
          local again = tokens[token] and not shared
          if token <= MARK or token > highest or again then odd = 'a token that is not new: ' .. answer[2] end
          tokens[token] = true
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
  local kind = pick('attempt', 'release', 'batch')
  local how, difference = ({attempt = one_attempt, release = one_release, batch = one_batch})[kind]()
  return finish(kind, how, difference)
end
return run()
