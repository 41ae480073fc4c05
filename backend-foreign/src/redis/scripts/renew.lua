-- Renews grants. It grants nothing, so it needs no epoch check. But it sets no lease above the
-- longest lease, which may have been lowered since the grant.
-- KEYS: 1 epoch record, then note, run and lock of each.
-- epoch args: kind grants...
--       owner and lease ms of each
-- Answers: 1 renewed, 2 held by another, 0 gone; last the longest lease in µs, or 0. Or that of
--       `unknown`.
local answers = {}
local epoch = redis.call('HMGET', KEYS[1], 'longest', 'version')
local stored, refusal = epoch[1] or 0, unknown(epoch[2], epoch[1])
-- guard: renew_version | S1 | a_renewal_in_another_version
if refusal then return refusal end
for at = 1, (#KEYS - 1) / 3 do
  local note, run, lock = KEYS[3 * at - 1], KEYS[3 * at], KEYS[3 * at + 1]
  local owner, lease = ARGV[grants + 2 * at - 2], tonumber(ARGV[grants + 2 * at - 1])
  -- guard: renew_longest | S1 | a_renewal_above_the_longest_lease
  if stored ~= 0 then lease = math.min(lease, math.ceil(stored / 1000)) end
  local noted, _, state = parse(read(note))
  -- guard: renew_gone | S5 | a_renewal_does_not_bring_an_expired_grant_back | local answer = 1
  local answer = 0
  -- guard: renew_owner | S4 | a_renewal_after_another_took_it | if false then
  if not is_ours(lock, owner) then
    if redis.call('EXISTS', lock) == 1 then answer = 2 end
  -- guard: renew_kept | S5 | a_renewal_of_what_is_kept | elseif true then
  elseif noted == owner and state == '0' then
    -- guard: renew_shorter | S3 | a_shorter_renewal | if true then
    if redis.call('PTTL', lock) < lease then
      for _, key in ipairs({lock, note, run}) do redis.call('PEXPIRE', key, lease) end
    end
    answer = 1
  end
  answers[at] = answer
end
answers[#answers + 1] = stored
return answers
