//! The events and the span of one acquire, for observers and `tracing`.

use std::{future::Future, pin::Pin};

use tracing::{Instrument as _, Span, field};

use super::{
    guard::Guard,
    state::{ClientState, Held, TARGET, ms},
};
use crate::{Blocked, Error, EventKind, Instant, LockName, NotAcquired};

/// The result of an acquire.
pub(super) trait AcquireResult {
    /// The lock, or why it was not acquired.
    fn held(&self) -> Result<&Held, NotAcquired<'_>>;
}

impl AcquireResult for Guard {
    fn held(&self) -> Result<&Held, NotAcquired<'_>> {
        Ok(Guard::held(self))
    }
}

fn outcome<T: AcquireResult>(result: &Result<T, Error>) -> Result<&Held, NotAcquired<'_>> {
    match result {
        Ok(answer) => answer.held(),
        Err(error) => Err(match error.blocked() {
            Some(Blocked::Busy(_)) => NotAcquired::Busy,
            Some(Blocked::Quarantined(_)) => NotAcquired::Quarantined,
            None => NotAcquired::Failed(error),
        }),
    }
}

/// Runs `work`, an acquire, and emits events for its begin and end. An acquire with an invalid name
/// has no events. `work` is borrowed, because moving the future would cost more than everything
/// else here.
pub(super) async fn with_events<T: AcquireResult>(
    state: &ClientState,
    name: Result<&LockName, Error>,
    work: Pin<&mut impl Future<Output = Result<T, Error>>>,
) -> Result<T, Error> {
    let result = match name.ok().filter(|_| state.is_observed()) {
        None => work.await,
        Some(name) => {
            let mut events = AcquireEvents::begin(state, name);
            let result = work.instrument(events.span.clone()).await;
            events.end(outcome(&result));
            result
        }
    };
    if let Ok(held) = outcome(&result) {
        state.acquire_reported(held);
    }
    result
}

/// An acquire under way. If it is dropped before its end, the acquire was cancelled.
struct AcquireEvents<'a> {
    state: &'a ClientState,
    name: &'a LockName,
    since: Instant,
    span: Span,
    ended: bool,
}

impl<'a> AcquireEvents<'a> {
    fn begin(state: &'a ClientState, name: &'a LockName) -> Self {
        let span = tracing::debug_span!(
            target: TARGET,
            "acquire",
            name = name.as_str(),
            store = state.backend.kind(),
            label = state.options.label.as_str(),
            waited_ms = field::Empty,
            token = field::Empty,
            outcome = field::Empty,
        );
        state.emit(name, None, EventKind::Requested);
        Self { state, name, since: state.env.now(), span, ended: false }
    }

    fn end(&mut self, outcome: Result<&Held, NotAcquired<'_>>) {
        self.ended = true;
        let waited = self.state.env.now().since(self.since);
        self.span.record("waited_ms", ms(waited));
        let _entered = self.span.enter();
        match outcome {
            Ok(held) => {
                self.span.record("token", held.grant.token.get());
                self.span.record("outcome", "acquired");
                let pushed = held.grant.claim.is_some();
                self.state.emit(self.name, Some(held), EventKind::Acquired { waited, pushed });
            }
            Err(why) => {
                self.span.record("outcome", why.word());
                self.state.emit(self.name, None, EventKind::NotAcquired { why, waited });
            }
        }
    }
}

impl Drop for AcquireEvents<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.end(Err(NotAcquired::Cancelled));
        }
    }
}
