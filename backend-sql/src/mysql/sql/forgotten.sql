-- The watermark, if the token ?1 is not above it. A grant with such a token must not be used: its row may be younger than a
-- sweep that has forgotten a higher token of the same name. A sweep raises the watermark before it deletes a row, so a token
-- that is above the watermark after the grant is above all tokens of rows that were deleted before the grant.
SELECT watermark FROM {settings} WHERE id = 1
    -- guard: watermark
    AND watermark >= ?1
