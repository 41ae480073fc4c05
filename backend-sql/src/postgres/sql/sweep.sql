-- First step of a sweep: forgets free rows whose tokens the watermark has covered for a minute. A
-- statement that makes such a row anew, however long it has waited, has read that watermark.
DELETE FROM {locks}
WHERE (owner IS NULL OR expires <= {now})
    AND token <= (SELECT watermark FROM {settings} WHERE raised + 60000000 <= {now})
