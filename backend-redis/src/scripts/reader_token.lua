-- part: reader_token
-- As make_token.lua. But a reader that joins a group gets the group's token, which is in `token`,
-- unless the reader's floor is not below it.
-- guard: join_floor | S2 | tokens_rise_between_readers_and_writers | if token then
if token and token > floor then
  shown = string.format('%.0f', token)
else
  -- include make_token
end
