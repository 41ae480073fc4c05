//! One acquire, as observers and `tracing` see it.

use std::{future::Future, pin::Pin};

use tracing::{Instrument as _, Span, field};

use super::{
    guard::Guard,
    state::{ClientState, Held, TARGET, ms},
};
use crate::{Blocked, Error, EventKind, Instant, LockName, NotAcquired};

/// What an acquire ends with.
pub(super) trait Answer {
    fn held(&self) -> Result<&Held, NotAcquired<'_>>;
}

impl Answer for Guard {
    fn held(&self) -> Result<&Held, NotAcquired<'_>> {
        Ok(Guard::held(self))
    }
}

fn outcome<T: Answer>(result: &Result<T, Error>) -> Result<&Held, NotAcquired<'_>> {
    match result {
        Ok(answer) => answer.held(),
        Err(error) => Err(match error.blocked() {
            Some(Blocked::Busy(_)) => NotAcquired::Busy,
            Some(Blocked::Quarantined(_)) => NotAcquired::Quarantined,
            None => NotAcquired::Failed(error),
        }),
    }
}

/// Does the work of an acquire, and reports its begin and its end. A bad name is no lock, and is not reported. The work is
/// borrowed: to move the future would cost more than all else here.
pub(super) async fn observed<T: Answer>(
    state: &ClientState,
    name: Result<&LockName, Error>,
    work: Pin<&mut impl Future<Output = Result<T, Error>>>,
) -> Result<T, Error> {
    let result = match name.ok().filter(|_| state.is_observed()) {
        None => work.await,
        Some(name) => {
            let mut acquiring = Acquiring::begin(state, name);
            let result = work.instrument(acquiring.span.clone()).await;
            acquiring.end(outcome(&result));
            result
        }
    };
    if let Ok(held) = outcome(&result) {
        state.heard(held);
    }
    result
}

/// An acquire under way. It is cancelled if it is dropped before its end.
struct Acquiring<'a> {
    state: &'a ClientState,
    name: &'a LockName,
    since: Instant,
    span: Span,
    ended: bool,
}

impl<'a> Acquiring<'a> {
    fn begin(state: &'a ClientState, name: &'a LockName) -> Self {
        let span = tracing::debug_span!(
            target: TARGET,
            "acquire",
            name = name.as_str(),
            store = state.backend.kind(),
            waited_ms = field::Empty,
            token = field::Empty,
            outcome = field::Empty,
        );
        state.tell(name, None, EventKind::Requested);
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
                self.state.tell(self.name, Some(held), EventKind::Acquired { waited, pushed });
            }
            Err(why) => {
                self.span.record("outcome", why.word());
                self.state.tell(self.name, None, EventKind::NotAcquired { why, waited });
            }
        }
    }
}

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.end(Err(NotAcquired::Cancelled));
        }
    }
}
