//! Several locks at once, semaphores and elections, made of plain locks: no backend knows of them.

mod all;
mod any;
mod election;
mod guards;
mod leadership;
mod semaphore;

pub use self::{
    all::{All, all},
    any::{Any, any},
    election::Election,
    guards::Guards,
    leadership::{Leader, Leadership},
    semaphore::Semaphore,
};

use std::{future::Future, pin::pin, time::Duration};

use futures_util::future::{Either, select};

use crate::{Env, Instant, env::sleep_in_slices};

/// The end of a wait; `None` waits for ever.
fn deadline(env: &dyn Env, wait: Option<Duration>) -> Option<Instant> {
    wait.map(|wait| env.now() + wait)
}

/// What is left of a wait.
fn left(env: &dyn Env, deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|end| end.since(env.now()))
}

/// The output of `work`, unless the deadline comes first.
async fn until<T>(
    env: &dyn Env,
    deadline: Option<Instant>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let Some(end) = deadline else { return Some(work.await) };
    match select(pin!(work), pin!(sleep_in_slices(env, end))).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(_) => None,
    }
}
