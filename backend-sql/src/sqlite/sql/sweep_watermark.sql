-- First step of a sweep: raises the watermark to the tokens of all free rows. Whatever deletes a token raises the
-- watermark to it first. ?1 now, ?2 epoch.
UPDATE {settings}
-- guard: sweep-raises
SET watermark = max(watermark, (
    SELECT coalesce(max(token), 0) FROM {locks} AS l WHERE owner IS NULL OR {over ?1 ?2}
))
