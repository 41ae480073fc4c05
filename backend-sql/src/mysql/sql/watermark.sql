-- A number that was above all forgotten tokens.
SELECT watermark FROM {settings} WHERE id = 1
