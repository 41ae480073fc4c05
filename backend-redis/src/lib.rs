//! Locks of leasehold in Redis: one server, one that sentinels watch, or a cluster.
//!
//! Every operation is one Lua script and one round trip. A release hands the lock to the first
//! waiter in the same step, and notifies it by a push. Tokens come from the server's clock and
//! never go back. After a loss of data nothing is granted for one longest lease (the quarantine).
//!
//! # Servers
//! Redis 7.0 or later, or Valkey 7.2 or later. Each new connection reads the version
//! (`redis_version` of INFO, which is 7.2.4 in all versions of Valkey). An older server is refused:
//! in it a script may write although too few replicas are connected (`min-replicas-to-write`), so
//! that an old master may still grant. Another server that speaks RESP3 and reports redis_version
//! 7.0 or more is accepted; none has been tested. A sentinel may be older.
//!
//! What a server does not say of itself is not promised: if INFO lacks `maxmemory_policy`,
//! `connected_slaves` or `repl_backlog_active`, or shows an id that no Redis has, as some proxies
//! do, exclusion is withheld with that reason. Scripts call INFO before they write an epoch record.
//! So each new connection tries that, and is refused if the server lets no script call INFO (Redis
//! Cloud and Redis Enterprise), or if the script sees another server.
//!
//! # Errors
//! These are retried: a server that has reached its `maxclients` or `maxmemory`, loads its data, is
//! busy with a script, cannot persist, has too few replicas or has become a replica, and a cluster
//! that is down. An error that is not known here is retried for one longest lease, and is then
//! `Config` with its text. If a key of the store has another type or content than this crate
//! writes, the error is `Config` at once, with the key and the remedy.
//!
//! # TLS
//! rustls, with the provider of cryptography that the application has installed for its process
//! (`CryptoProvider::install_default`). Without one, the crate uses its own and does not install
//! it: that of the feature `tls-ring` (default), or of `tls-aws-lc`. Without either feature, TLS
//! needs the application's provider.
//!
//! # Permissions
//! A user needs no more than this, with `PREFIX` the key prefix (`leasehold` by default):
//!
//! ```text
//! user NAME on >PASSWORD resetchannels &PREFIX:{0}:push:* resetkeys ~PREFIX:{0}:* -@all
//!   +hello +auth +ping +select +info +time +eval +evalsha +scan +subscribe +unsubscribe +publish
//!   +get +mget +set +setrange +del +exists +pttl +pexpire +hget +hmget +hset +hdel
//!   +lindex +llen +lpop +lpos +lrem +rpush +script|exists +script|load +config|get
//! ```
//!
//! With `+script|exists +script|load +config|get` a store that is new since the server's start
//! grants at once. Give them to the users of all clients, or to none. If there are replicas,
//! `+config|get` also lets the client read how long an isolated master accepts writes; without it
//! set `failover_margin`. `wait_replicas` needs `+wait`. A user for sentinels
//! needs `+hello +auth +sentinel|get-master-addr-by-name +sentinel|master`.
//!
//! In a cluster:
//!
//! ```text
//! user NAME on >PASSWORD resetchannels &PREFIX:{*}:spush:* resetkeys ~PREFIX:{*}:* -@all
//!   +hello +auth +ping +info +time +eval +evalsha +cluster|slots +cluster|countkeysinslot
//!   +cluster|getkeysinslot +config|get +asking +ssubscribe +spublish
//!   +get +mget +set +setrange +del +exists +pttl +pexpire +hget +hmget +hset +hdel
//!   +lindex +llen +lpop +lpos +lrem +rpush
//! ```
//!
//! A [`Fence`] also needs access to the user's own keys. `init` needs nothing more.
//!
//! # Failover
//! Redis replicates asynchronously, so a replica without the last grants may be promoted. The new
//! master grants nothing until every lease that the old one could have given is over. Meanwhile
//! holders may renew the locks that it has. That alone does not stop an *old* master: it may still
//! grant and renew for clients that reach it. Exclusion across a failover is promised only if the
//! old master is known to stop, or if its grants do not count:
//!
//! | | set on the servers | quarantine of the new master |
//! |---|---|---|
//! | sentinels | `min-replicas-to-write` so high that a failover leaves the old master fewer, and `min-replicas-max-lag` | longest lease + `min-replicas-max-lag` + 5 s |
//! | cluster | `cluster-node-timeout`; no `CLUSTER FAILOVER TAKEOVER` | longest lease + 2 × `cluster-node-timeout` + 4 s |
//! | either | nothing, but all clients use `wait_replicas=N`, with N so high that a failover leaves the old master fewer | longest lease |
//!
//! `failover_margin` replaces the margin that is added to the longest lease. Set it if you know a
//! better value, or if the user may not call CONFIG GET. The promise assumes that a master that
//! hung learns of its replacement before it grants anything. [`Guarantees`](lock_core::Guarantees)
//! and `leasehold check` say what is promised with the present settings of the servers, and if
//! nothing is, what to set. The settings must be the same on all servers of a store. With
//! `wait_replicas` each grant and renewal costs a round trip to the replicas, and nothing is
//! granted while too few answer.
//!
//! *From the loss of a master until the first new grant* these times add up: the detection
//! (`down-after-milliseconds` or `cluster-node-timeout`), one or two seconds for votes and
//! promotion, at most one second until waiting clients ask, and the quarantine of the table.
//! Measured with a longest lease of 3 s, and detection after 1.5 s:
//!
//! | | promoted | quarantine | first grant |
//! |---|---|---|---|
//! | sentinels that promise nothing | 2.8 to 3.0 s | 3 s | 5.8 to 6.1 s |
//! | sentinels, `min-replicas-max-lag 1` | 2.8 to 3.3 s | 3 + 6 s | 12 to 12.7 s |
//! | sentinels, `wait_replicas=1` | 2.8 to 3.2 s | 3 s | 5.9 to 6.3 s |
//! | cluster | 2.6 to 3.0 s | 3 + 7 s | 12.8 to 13.7 s |
//! | cluster, `wait_replicas=1` | 2.4 to 2.8 s | 3 s | 5.4 to 5.8 s |
//!
//! With the default longest lease of 30 s each is 27 s more. A shorter longest lease shortens it
//! most (`leasehold init --longest-lease`; the quarantine stays as long as leases ever were, until
//! an operator adds `--first-use`, which says that nobody holds a lock). Next comes `wait_replicas`
//! in place of the margin, which costs each grant a round trip, and last a quicker detection.
//! Detection that is too quick backfires: sentinels that replace a busy master again and again
//! start a new quarantine each time.
//!
//! A cluster slot that moves to another node starts a quarantine, and so does the first replica
//! that a server ever gets. While a slot is moving, nothing in it is granted, and locks in it are
//! renewed. No epoch record shows what Redis itself loses of a moving slot: a lock that has already
//! moved is lost with its new node. If the slot then stays on its old node, or returns to it, run
//! `HDEL PREFIX:{BUCKET}:epoch run` to begin its quarantine.
//!
//! # Settings
//! The longest lease and the quarantine setting are in the epoch record, and are lost with it. The
//! first client that asks after that writes the values of its URL, or 30 s and on. So set both in
//! every client's URL. If the store's longest lease is above 30 s and the URL does not set it,
//! exclusion is not promised. To lower it: call `init`, wait until the store grants again, then
//! change the URLs. To raise it: call `init`, and change the URLs while the store waits. A client
//! whose URL has another value is refused. After a longest lease was lowered, a holder's next
//! renewal asks for no more than that. Turning a quarantine on starts a whole wait, since data may
//! have been lost while it was off.
//!
//! A client that may write to the store can set its watermark to the limit, and then nothing is
//! granted. `init --reset-tokens` sets the tokens back to the clock after a wait. Later tokens are
//! lower than those granted in between: a [`Fence`] that admitted one of these refuses all later
//! tokens until its record is removed.

#![warn(missing_debug_implementations)]

mod backend;
pub mod batching;
mod builder;
mod connection;
mod discovery;
mod fence;
mod guarantees;
mod keys;
pub mod node;
mod scripts;
mod settings;
mod store;
mod sys;
#[cfg(test)]
mod tests;
mod tunables;
mod waiting;

pub use self::{
    builder::{RedisBuilder, connect},
    fence::Fence,
};
