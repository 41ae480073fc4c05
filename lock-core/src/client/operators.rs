//! The calls of operators: they look at a store, or take a lock away.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use serde::Serialize;

use super::{lock_client::LockClient, state::ClientState};
use crate::{
    Error, ErrorKind, FencingToken, Guarantees, Init, Listing, LockName, LockState, ReleaseOutcome,
    StoreSettings,
};

/// The answer to [`LockClient::check`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoreCheck {
    /// A short word for the kind of store, such as `redis`.
    pub backend: &'static str,
    /// The difference between the store's wall clock and this process's, in microseconds (positive when the store is
    /// ahead); `None` where the store uses this machine's clock.
    pub clock_difference_micros: Option<i64>,
    /// The highest token that the store remembers, of all names; `None` where the store does not tell.
    pub highest_token: Option<FencingToken>,
    /// What the store promises in its present configuration.
    pub guarantees: Arc<Guarantees>,
}

impl StoreCheck {
    /// Whether the fencing tokens are used up, so that the store grants nothing: see [`Init::reset_tokens`].
    #[must_use]
    pub fn tokens_used_up(&self) -> bool {
        self.highest_token == Some(FencingToken::MAX)
    }
}

/// # Calls of operators
///
/// Each ends within the time limit of the store's calls, and at the latest after the client's `call_timeout`.
///
/// *Errors*: those of the store; `Timeout` after the client's `call_timeout`; `Config` once the client is closed.
///
/// *Cancel safety*: dropping the future of a call that reads changes nothing. A call that writes may have been carried
/// out.
impl LockClient {
    /// Reads what the store knows of a name; `None` if nothing.
    ///
    /// # Errors
    /// `InvalidInput` for a bad name; otherwise as [all of these calls](#calls-of-operators).
    pub async fn inspect<N>(&self, name: N) -> Result<Option<LockState>, Error>
    where
        N: TryInto<LockName>,
        N::Error: Into<Error>,
    {
        let name = name.try_into().map_err(Into::into)?;
        let call = self.within(self.backend().inspect(&name)).await;
        call.map_err(|error| error.on(&name))
    }

    /// Lists all held names, sorted.
    ///
    /// A name that is held from the start to the end of the listing is in it. The whole list is kept in memory; for
    /// parts of it see [`Backend::list`](crate::Backend::list). The time limit holds for each part.
    ///
    /// # Errors
    /// As [all of these calls](#calls-of-operators); `Config` for more than a million held names, and for a store whose
    /// listing leads to where it was.
    pub async fn list(&self) -> Result<Vec<LockState>, Error> {
        let (mut locks, mut listing, mut goes_on) = (Vec::new(), Listing::new(), true);
        while goes_on {
            let page = self.within(self.backend().list(listing.cursor())).await?;
            goes_on = listing.goes_on(&page)?;
            locks.extend(page.locks);
        }
        // A name that moved between two parts of the listing is in both.
        locks.sort_by(|a, b| a.name.cmp(&b.name));
        locks.dedup_by(|a, b| a.name == b.name);
        Ok(locks)
    }

    /// Asks the store whether it answers, and for its clock and highest token. It changes nothing.
    ///
    /// # Errors
    /// As [all of these calls](#calls-of-operators); `Config` also where the store lacks its tables.
    pub async fn check(&self) -> Result<StoreCheck, Error> {
        let backend = self.backend();
        let asked = async {
            // Any name: a store that does not know it yet may lack its tables.
            backend.inspect(&LockName::new("leasehold check")?).await?;
            Ok((backend.clock_difference_micros().await?, backend.highest_token().await?))
        };
        let (clock_difference_micros, highest_token) = self.within(asked).await?;
        let (backend, guarantees) = (backend.kind(), self.guarantees());
        Ok(StoreCheck { backend, clock_difference_micros, highest_token, guarantees })
    }

    /// Frees a name, whichever client holds it. The former holder learns of it at its next renewal, and may write until
    /// then: only a fence keeps its writes out.
    ///
    /// # Errors
    /// `InvalidInput` for a bad name; otherwise as [all of these calls](#calls-of-operators).
    pub async fn force_release<N>(&self, name: N) -> Result<ReleaseOutcome, Error>
    where
        N: TryInto<LockName>,
        N::Error: Into<Error>,
    {
        let name = name.try_into().map_err(Into::into)?;
        let call = self.within(self.backend().force_release(&name)).await;
        call.map_err(|error| error.on(&name))
    }

    /// Creates what the store needs, or changes its settings: see [`Backend::init`](crate::Backend::init).
    ///
    /// # Errors
    /// `Unsupported` for a setting that the store does not have; `InvalidInput` for a longest lease out of its range;
    /// otherwise as [all of these calls](#calls-of-operators).
    pub async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        self.within(self.backend().init(init)).await
    }

    async fn within<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let state = &self.handle.0;
        let _in_flight = ClientState::begin(&**state)?;
        let limit: Duration = state.options.call_timeout;
        let mut call = pin!(call);
        // A store that answers at once needs no timer.
        if let std::task::Poll::Ready(answer) = futures_util::poll!(&mut call) {
            return answer;
        }
        match select(call, state.env.sleep(limit)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => {
                let limit = humantime::format_duration(limit);
                let message = format!("the store did not answer within {limit}");
                Err(Error::new(ErrorKind::Timeout, message))
            }
        }
    }
}
