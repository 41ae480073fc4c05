-- The watermark, if the token ?2 of ?1 was never checked and is not above it. Such a grant must not be used: its row may be
-- younger than a sweep that has forgotten a higher token of the same name. A sweep raises the watermark before it deletes a
-- row, so a token that is above the watermark after the grant is above all tokens of rows that were deleted before the grant.
SELECT s.watermark FROM {settings} AS s, {locks} AS l WHERE s.id = 1
    AND l.name = ?1 AND l.token = ?2 AND l.kept = 2
    -- guard: watermark
    AND s.watermark >= ?2
