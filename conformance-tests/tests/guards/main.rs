//! The guards in the scripts and statements of the backends, each left out once: on its way to a real
//! server the text loses the guard, and the case meant for it has to fail. The same case lets the text
//! pass as it is.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cases;
mod etcd;
#[path = "../left_out/mod.rs"]
mod left_out;
mod mysql;
mod postgres;
mod raw;
mod redis;
mod redis_scripts;
mod redlock;
mod sqlite;
mod wire;
