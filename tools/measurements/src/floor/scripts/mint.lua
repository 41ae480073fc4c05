-- Takes a free key, with a token above all before. KEYS[1]: the key; KEYS[2]: the last token;
-- ARGV[1]: the value; ARGV[2]: milliseconds until it ends. Answers the token, or 0.
if redis.call('EXISTS', KEYS[1]) == 1 then
    return 0
end
local now = redis.call('TIME')
local last = tonumber(redis.call('GET', KEYS[2])) or 0
local token = string.format('%.0f', math.max(now[1] * 1000000 + now[2], last + 1))
redis.call('SET', KEYS[2], token, 'PX', ARGV[2])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return token
