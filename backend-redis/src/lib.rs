//! Locks of leasehold in one Redis.
//!
//! Every operation is one Lua script, one round trip. A release hands the lock to the first waiter in
//! the same step and tells it by push; tokens come from the server's clock and never go back; after a
//! loss of data nothing is granted for one longest lease (the quarantine).
//!
//! # Permissions
//! A user needs no more than this, with `PREFIX` the key prefix (`leasehold` by default):
//!
//! ```text
//! user NAME on >PASSWORD resetchannels &PREFIX:{0}:push:* resetkeys ~PREFIX:{0}:* -@all +hello
//!   +auth +select +ping +info +time +eval +evalsha +scan +subscribe
//!   +unsubscribe +publish +get +set +del +exists +pttl +pexpire +hget +hmget +hset +hdel +llen +lpop
//!   +lpos +lrem +rpush
//! ```
//!
//! Where replicas are, `+config|get` lets the client read how long a master that is cut off goes on
//! writing; without it set `failover_margin`. A user for sentinels needs `+hello +auth
//! +sentinel|get-master-addr-by-name +sentinel|master`.
//!
//! A [`Fence`] needs the user's own keys besides. `init` needs nothing more.

mod acks;
mod backend;
mod cluster;
mod config;
mod error;
mod failover;
mod fence;
mod guarantees;
mod identity;
mod keys;
mod link;
pub mod node;
mod operate;
mod pushes;
mod redirect;
mod reply;
mod routes;
mod run;
mod scripts;
mod sentinel;
mod slots;
mod store;
mod subscription;
mod topology;
mod turn;
mod url;

pub use self::{
    config::{Protocol, RedisBuilder},
    fence::{Fence, FenceError},
    url::connect,
};
