//! Pauses between the tries of a call.

use std::time::Duration;

use crate::{
    Instant,
    client::state::ClientState,
    env::jittered,
    tunables::{LONGEST_RETRY_PAUSE, SHORTEST_RETRY_PAUSE},
};

/// Pauses that grow from try to try, with jitter, until `end`.
pub(crate) struct Backoff {
    pause: Duration,
    end: Instant,
}

impl Backoff {
    pub(crate) fn until(end: Instant) -> Self {
        Self { pause: SHORTEST_RETRY_PAUSE, end }
    }

    /// Waits before the next try; `false` if there is no time for one.
    pub(crate) async fn pause(&mut self, state: &ClientState) -> bool {
        let pause = jittered(&*state.env, self.pause);
        if state.env.now() + pause >= self.end {
            return false;
        }
        state.env.sleep(pause).await;
        self.pause = (self.pause * 2).min(LONGEST_RETRY_PAUSE);
        true
    }
}
