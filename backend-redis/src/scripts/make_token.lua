-- part: make_token
-- Makes a token above all tokens of this store, in the middle of a script or of a function. Before
-- it stand `now`, the watermark `mark`, the number `floor`, and `token` and `shown`, which it sets:
-- the second is the token as text, or false if no number is left. The token is written to the
-- watermark before anything can forget it.
-- guard: mint_mark | S2 | a_token_is_above_the_floor | token = math.max(now, floor + 1)
-- guard: mint_floor | S2 | a_token_is_above_the_floor | token = math.max(now, mark + 1)
token = math.max(now, mark + 1, floor + 1)
shown = token <= 9007199254740991 and string.format('%.0f', token)
-- guard: mark | S2 | a_token_is_above_the_floor
if shown then redis.call('HSET', KEYS[1], 'mark', shown) end
