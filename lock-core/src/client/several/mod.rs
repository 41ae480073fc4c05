//! Several locks at once, semaphores and elections. All consist of plain locks, so no backend knows
//! about them.

mod all;
mod any;
mod election;
mod guards;
mod leader_watch;
mod leader_word;
mod semaphore;

pub use self::{
    all::{All, all},
    any::{Any, any},
    election::Election,
    guards::Guards,
    leader_watch::{Leader, Leadership},
    leader_word::LeaderWord,
    semaphore::Semaphore,
};

use std::{future::Future, pin::pin, time::Duration};

use futures_util::future::{Either, select};

use crate::{Env, Instant, env::sleep_checking_clock};

/// The deadline of a wait that begins now; `None` waits for ever.
fn deadline(env: &dyn Env, wait: Option<Duration>) -> Option<Instant> {
    wait.map(|wait| env.now() + wait)
}

/// The time until the deadline.
fn left(env: &dyn Env, deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|end| end.since(env.now()))
}

/// Runs `work` until the deadline; `None` if the deadline came first.
async fn until<T>(
    env: &dyn Env,
    deadline: Option<Instant>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let Some(end) = deadline else { return Some(work.await) };
    match select(pin!(work), pin!(sleep_checking_clock(env, end))).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(_) => None,
    }
}
