//! The real clients of other libraries and leasehold clients on one server. If the toolchain or
//! registry of a client is missing, its tests are skipped, with a message on stderr.

mod cases;
mod moving;
mod program;

use self::{
    cases::{Pair, Side},
    program::{
        Library, NODE_REDLOCK, PYTHON_REDIS_LOCK, REDIS_PY, REDISSON, REDSYNC, SHEDLOCK_IN_MYSQL,
        SHEDLOCK_IN_POSTGRES, SHEDLOCK_IN_REDIS, SPRING_6, SPRING_7,
    },
};

/// The tests of each library.
macro_rules! beside {
    ($($module:ident $library:ident;)*) => {$(
        mod $module {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn exclude_each_other() {
                let Some(mut pair) = Pair::start(&$library).await else { return };
                pair.alternates().await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn wait_for_each_other() {
                let Some(mut pair) = Pair::start(&$library).await else { return };
                pair.we_wait_for_them().await;
                pair.their_message_wakes_us().await;
                pair.they_wait_for_us().await;
                pair.they_release_late().await;
                if $library.endless {
                    pair.they_hold_without_an_end().await;
                }
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn outlive_each_other() {
                let Some(mut pair) = Pair::start(&$library).await else { return };
                pair.a_killed_holder_leaves_the_lock(Side::Ours).await;
                pair.a_killed_holder_leaves_the_lock(Side::Theirs).await;
            }
        }
    )*};
}

beside! {
    redisson REDISSON;
    redis_py REDIS_PY;
    python_redis_lock PYTHON_REDIS_LOCK;
    node_redlock NODE_REDLOCK;
    redsync REDSYNC;
    spring SPRING_7;
    shedlock_in_redis SHEDLOCK_IN_REDIS;
    shedlock_in_postgres SHEDLOCK_IN_POSTGRES;
    shedlock_in_mysql SHEDLOCK_IN_MYSQL;
}

/// Its waiters listen to another channel than those of version 7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_spring_6_are_woken() {
    let Some(mut pair) = Pair::start(&SPRING_6).await else { return };
    pair.we_wait_for_them().await;
    pair.they_wait_for_us().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minimum_hold_of_shedlock_keeps_leasehold_out() {
    for library in [&SHEDLOCK_IN_REDIS, &SHEDLOCK_IN_POSTGRES, &SHEDLOCK_IN_MYSQL] {
        let Some(mut pair) = Pair::start(library).await else { return };
        pair.they_keep_it_for_a_minimum_hold().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redissons_fenced_lock_and_leasehold_share_one_sequence_of_tokens() {
    let Some(mut pair) = Pair::start(&REDISSON).await else { return };
    pair.tokens_rise_on_both_sides().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redisson_during_a_migration() {
    moving::to_our_own_layout(&REDISSON).await;
}

/// The body of a leasehold process that is killed while it holds the lock. It never ends by itself.
#[tokio::test]
#[ignore = "started and killed by outlive_each_other"]
async fn a_holder_to_be_killed() {
    cases::hold_until_killed().await;
}
