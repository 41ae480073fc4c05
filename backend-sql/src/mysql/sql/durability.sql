-- What decides on whether a crash may lose what was committed.
SHOW GLOBAL VARIABLES WHERE Variable_name IN (
    -- guard: durability
    'innodb_flush_log_at_trx_commit',
    'innodb_flush_method', 'log_bin', 'sync_binlog', 'wsrep_on', 'group_replication_group_name'
)
