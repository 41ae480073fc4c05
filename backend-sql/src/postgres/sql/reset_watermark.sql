-- Setting the tokens back, first step: nothing is granted for a whole quarantine, also where that is off. All tokens that
-- lead the clock by no more than they may are below it when that is over. doubt.sql and reset_tokens.sql follow. Last
-- step: the same again, since a sweep may have read the tokens of before.
-- $1 the longest that the longest lease ever was, as far as the client knows.
INSERT INTO {marker} AS m (id, store, itself, grants_from, watermark, raised)
SELECT 1, {here}, '{marker}'::regclass, {now} + greatest(quarantine, $1), 0, 'epoch' FROM {settings}
ON CONFLICT (id) DO UPDATE SET
    store = excluded.store, itself = excluded.itself, watermark = 0, raised = 'epoch',
    grants_from = greatest(m.grants_from, excluded.grants_from)
