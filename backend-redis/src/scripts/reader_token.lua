-- part: reader_token
-- As make_token.lua. But a reader that joins a group gets the group's token, which is in `token`,
-- unless the reader's floor is not below it.
-- guard: join_floor
if token and token > floor then
  shown = string.format('%.0f', token)
else
  -- include make_token
end
