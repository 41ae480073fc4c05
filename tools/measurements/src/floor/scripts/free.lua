-- Deletes a key that still has our value. KEYS[1]: the key; ARGV[1]: the value. Answers 1, or 0.
if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0
