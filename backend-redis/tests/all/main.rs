//! Tests on real servers, by topic. The suite of all backends is in `conformance.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod batch;
mod close;
mod cluster;
mod cluster_moves;
mod cluster_partition;
mod connection_faults;
mod credentials;
mod fair_turns;
mod faults;
mod fence;
mod handshake;
mod heartbeats;
mod missing_guards;
mod out_of_memory;
mod redis;
mod sentinel_failover;
mod sentinel_partition;
mod settings;
mod support;
mod tls;
mod tls_handshake;
mod unreadable;
mod versions;
mod wait_replicas;
mod wrong_servers;
