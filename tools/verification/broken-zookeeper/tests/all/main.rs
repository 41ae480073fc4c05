//! Each broken variant of `backend-zookeeper` fails one of these tests. Without a variant, all of
//! them pass; `scripts/run-tests` leaves that to `backend-zookeeper`, whose tests these are.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../../../../../backend-zookeeper/tests/all/ensemble.rs"]
mod ensemble;
#[path = "../../../../../backend-zookeeper/tests/all/faults.rs"]
mod faults;
#[path = "../../../../../backend-zookeeper/tests/all/foreign.rs"]
mod foreign;
#[path = "../../../../../backend-zookeeper/tests/all/kept.rs"]
mod kept;
mod missing_guards;
#[path = "../../../../../backend-zookeeper/tests/all/restore.rs"]
mod restore;
#[path = "../../../../../backend-zookeeper/tests/all/sessions.rs"]
mod sessions;
mod suite;
#[path = "../../../../../backend-zookeeper/tests/all/support/mod.rs"]
mod support;
#[path = "../../../../../backend-zookeeper/tests/all/versions.rs"]
mod versions;
