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
mod short_ways;
mod sqlite;
mod wire;

#[test]
fn a_server_that_does_not_start_says_nothing_of_a_guard() {
    use std::process::ExitStatus;

    use conformance_tests::kit::KitError;

    let start = || {
        let (server, log, status) = ("redis".to_owned(), String::new(), ExitStatus::default());
        Err(KitError::Exited { server, status, log })
    };
    let words = std::panic::catch_unwind(|| -> () { start().unwrap() }).unwrap_err();
    assert!(left_out::is_of_the_kit(words.downcast_ref::<String>().unwrap()));
}
