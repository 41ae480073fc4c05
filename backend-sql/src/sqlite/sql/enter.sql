-- Adds the entry of the owner ?2 to the end of the queue of ?1. If it is already there, this is its heartbeat. An
-- abandoned owner gets no entry. Nor does an owner that holds the lock: it would be served again after its release.
-- ?3 label, ?4 floor, ?5 bell or null, ?6 now, ?7 epoch, ?8 wall clock in µs, ?9 whether it is a reader's.
INSERT INTO {queue} (name, position, owner, label, floor, bell, heard, epoch, wall, shared)
SELECT ?1, coalesce((SELECT max(position) FROM {queue} WHERE name = ?1), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9
WHERE true
    -- guard: enter-abandoned
    AND NOT EXISTS (SELECT 1 FROM {abandoned} AS a WHERE a.owner = ?2)
    -- guard: enter-holds
    AND NOT EXISTS (SELECT 1 FROM {locks} AS l WHERE l.name = ?1 AND (l.owner = ?2 OR instr(l.readers, ?2)) AND NOT {over ?6 ?7})
ON CONFLICT (name, owner) DO UPDATE SET
    bell = excluded.bell, heard = excluded.heard, epoch = excluded.epoch, wall = excluded.wall
