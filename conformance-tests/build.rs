//! The sources of some crates once more, with switches in the guards that tests leave out one by one. The
//! copies stand in the build folder: nothing of them is in the product.

#![allow(clippy::unwrap_used)]

#[path = "tests/left_out/copy.rs"]
mod copy;
#[path = "tests/core/list.rs"]
mod core;
#[path = "tests/etcd/list.rs"]
mod etcd;
#[path = "tests/left_out/mutant.rs"]
mod mutant;
#[path = "tests/redis_client/list.rs"]
mod redis_client;
#[path = "tests/redlock_client/list.rs"]
mod redlock_client;

fn main() {
    for file in ["build.rs", "tests/left_out"] {
        println!("cargo::rerun-if-changed={file}");
    }
    for target in ["core", "etcd", "redlock_client"] {
        println!("cargo::rerun-if-changed=tests/{target}/list");
    }
    for target in ["core", "etcd", "redis_client", "redlock_client"] {
        println!("cargo::rerun-if-changed=tests/{target}/list.rs");
    }
    copy::copy("lock-core", &core::core());
    copy::copy("backend-etcd", &etcd::etcd());
    copy::copy("backend-redis", redis_client::REDIS);
    copy::copy("backend-redlock", &redlock_client::redlock());
}
