//! The tries of one call, and the pauses between them.

use std::{future::Future, time::Duration};

use lock_core::{Env, Error, jittered};

use crate::tunables::{FIRST_PAUSE, LONGEST_PAUSE, READ_TRIES};

/// The pauses of one call.
pub(super) struct Tries<'a> {
    env: &'a dyn Env,
    pause: Duration,
}

impl<'a> Tries<'a> {
    pub(super) fn new(env: &'a dyn Env) -> Self {
        Self { env, pause: FIRST_PAUSE }
    }

    /// Waits before the next try. Clients that were refused together do not come back together.
    pub(super) async fn pause(&mut self) {
        self.env.sleep(jittered(self.env, self.pause)).await;
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
    }
}

/// Tries until there is an answer. `None` is none yet.
///
/// # Errors
/// One that does not pass, or the last of too many.
pub(super) async fn until<T, F>(env: &dyn Env, mut tried: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<Option<T>, Error>>,
{
    let (mut tries, mut failed) = (Tries::new(env), 0);
    loop {
        match tried().await {
            Ok(Some(answer)) => return Ok(answer),
            Ok(None) => {}
            Err(error) if error.is_retryable() && failed < READ_TRIES => failed += 1,
            Err(error) => return Err(error),
        }
        tries.pause().await;
    }
}
