-- part: busy
-- The answer to a request that has to wait. tunables.lua and `parse` stand before this text.

-- {'busy', owner ('?' if the record cannot be read), label, remaining ms, token, retry ms, 1 if the
-- asker has an entry}. `record` is the present one, and `queued` the result of `keep_entry` for the
-- asker.
local function busy(asker, queued, mark, record)
  local owner, token, _, label = parse(record)
  local left = record and redis.call('PTTL', KEYS[2]) or 0
  if left == -1 then
    -- No record of this store stays for ever. Whatever this one is, no lease is longer than this.
    left = math.ceil(longest / 1000)
    redis.call('PEXPIRE', KEYS[2], left)
  end
  local near = not queued or queued ~= true and queued <= NEAR
    or queued == true and redis.call('LPOS', KEYS[3], asker, 'MAXLEN', NEAR)
  -- A client near the head asks again when the lease ends, since the holder may have crashed.
  local retry = near and math.max(1, math.min(NEAR_MS, left + 1)) or FAR_MS
  return {'busy', owner or record and '?' or '', label or '', left, string.format('%.0f', token or mark), retry, queued and 1 or 0}
end
