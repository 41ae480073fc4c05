//! Redis: one server, a master with replicas and sentinels, a cluster.

mod bus;
mod cluster;
mod power_loss;
mod sentinel;
mod server;

pub use self::{
    bus::Links,
    cluster::RedisCluster,
    sentinel::Sentinels,
    server::{Redis, RedisOptions},
};
