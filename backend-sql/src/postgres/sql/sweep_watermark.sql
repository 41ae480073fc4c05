-- Second step of a sweep: raises the watermark to the tokens of all free rows, for the sweep after this one. Whatever
-- deletes a token raises the watermark to it first. It does so at most once a minute, since each raise starts the minute
-- of sweep.sql anew. If the clock was set back, it raises at once: otherwise there would be no sweep until the clock is
-- where it was. It leaves the marker alone while another transaction has locked it.
UPDATE {marker} SET
    watermark = greatest(watermark, (
        SELECT coalesce(pg_catalog.max(token), 0) FROM {locks} WHERE owner IS NULL OR expires <= {now}
    )),
    raised = {now}
WHERE id = (
    SELECT id FROM {marker} WHERE raised + interval '1 minute' <= {now} OR raised > {now} FOR UPDATE SKIP LOCKED
)
