//! As little as takes and gives back a lock in a store, by the store's own client.

mod etcd;
mod mysql;
mod postgres;
mod redis;

pub use self::{
    etcd::Etcd,
    mysql::Mysql,
    postgres::Postgres,
    redis::{Redis, pings_of_all},
};

/// Who holds.
const OWNER: &str = "0123456789abcdef0123456789abcdef";
