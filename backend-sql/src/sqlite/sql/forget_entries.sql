-- Deletes entries without a heartbeat: their processes have ended. ?1 now, ?2 epoch, ?3 wall clock in µs.
DELETE FROM {queue} AS q WHERE NOT {alive ?1 ?2 ?3}
