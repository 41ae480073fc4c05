//! Calls for operators: show locks, check a store, change its settings, or take a lock away.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use serde::Serialize;

use super::{lock_client::LockClient, state::ClientState};
use crate::{
    Error, ErrorKind, FencingToken, Guarantees, Init, Listing, LockName, LockState, Promise,
    Quarantined, ReleaseOutcome, StoreSettings,
    tunables::{LARGE_CLOCK_DIFFERENCE, ROUND_TRIPS, SLOW_ROUND_TRIP},
};

/// The answer to [`LockClient::check`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoreCheck {
    /// A short word for the kind of store, such as `redis`.
    pub backend: &'static str,
    /// How long the store takes to answer: the median of 5 reads.
    pub round_trip: Duration,
    /// The store's wall clock minus this process's, in microseconds: positive if the store is
    /// ahead. `None` if the store uses this machine's clock.
    pub clock_difference_micros: Option<i64>,
    /// The highest token that the store remembers, of all names; `None` if the store does not know.
    pub highest_token: Option<FencingToken>,
    /// The warnings of the store itself: what slows it down, or will soon stop it.
    pub store_warnings: Vec<String>,
    /// The quarantine that runs now; `None` if the store grants.
    pub quarantine: Option<Quarantined>,
    /// What the store promises with its present settings.
    pub guarantees: Arc<Guarantees>,
}

impl StoreCheck {
    /// What an operator should know, one sentence each: withheld promises, used-up tokens, a slow
    /// store, a wrong clock, and the warnings of the store itself.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let show = humantime::format_duration;
        let mut warnings = Vec::new();
        let Guarantees { exclusion, tokens, .. } = &*self.guarantees;
        for (what, promise) in [("exclusion", exclusion), ("that tokens never go back", tokens)] {
            if let Promise::Withheld { why } = promise {
                warnings.push(format!("the store does not promise {what}: {why}"));
            }
        }
        if self.tokens_used_up() {
            warnings.push("the fencing tokens are used up, so the store grants nothing".to_owned());
        }
        if self.round_trip > SLOW_ROUND_TRIP {
            warnings.push(format!(
                "an answer takes {}: a lease should be at least {}, 20 times as long",
                show(self.round_trip),
                show(self.round_trip * 20)
            ));
        }
        let off = Duration::from_micros(self.clock_difference_micros.unwrap_or(0).unsigned_abs());
        if off > LARGE_CLOCK_DIFFERENCE {
            warnings.push(format!("the store's clock and this machine's differ by {}", show(off)));
        }
        if let Some(Quarantined { remaining, why }) = &self.quarantine {
            let remaining = show(Duration::from_secs(remaining.as_secs() + 1));
            warnings.push(format!(
                "the store is in quarantine, and grants in {remaining}: {why} (if nobody can hold a lock, `leasehold init \
                 --first-use` ends it)"
            ));
        }
        warnings.extend(self.store_warnings.iter().cloned());
        warnings
    }

    /// Whether the fencing tokens are used up, so that the store grants nothing. See
    /// [`Init::reset_tokens`].
    #[must_use]
    pub fn tokens_used_up(&self) -> bool {
        self.highest_token == Some(FencingToken::MAX)
    }
}

/// # Calls for operators
///
/// # Durations
///
/// Each call to the store ends within the client's `call_timeout`.
///
/// # Errors
///
/// Those of the store; `Timeout` after the client's `call_timeout`; `Config` if the client is
/// closed.
///
/// # Cancel safety
///
/// Dropping the future of a call that reads changes nothing. The store may have carried out a call
/// that writes.
impl LockClient {
    /// Reads the state of a lock; `None` if the store knows nothing of the name.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid name; otherwise as [all of these calls](#calls-for-operators).
    pub async fn inspect<N>(&self, name: N) -> Result<Option<LockState>, Error>
    where
        N: TryInto<LockName>,
        N::Error: Into<Error>,
    {
        let name = name.try_into().map_err(Into::into)?;
        let call = self.within(self.backend().inspect(&name)).await;
        call.map_err(|error| error.on(&name))
    }

    /// Lists all held locks, sorted by name.
    ///
    /// A lock that is held from the start to the end of the listing is in it. The whole list is
    /// kept in memory; for single pages see [`Backend::list`](crate::Backend::list). The time limit
    /// applies to each page.
    ///
    /// # Errors
    /// As [all of these calls](#calls-for-operators); `Config` for more than a million held locks,
    /// and for a store whose listing has no end.
    pub async fn list(&self) -> Result<Vec<LockState>, Error> {
        let (mut locks, mut listing, mut goes_on) = (Vec::new(), Listing::new(), true);
        while goes_on {
            let page = self.within(self.backend().list(listing.cursor())).await?;
            goes_on = listing.goes_on(&page)?;
            locks.extend(page.locks);
        }
        // A name that moved between two pages of the listing is on both.
        locks.sort_by(|a, b| a.name.cmp(&b.name));
        locks.dedup_by(|a, b| a.name == b.name);
        Ok(locks)
    }

    /// Measures how fast the store answers, and reads its clock, highest token and warnings. It
    /// changes nothing.
    ///
    /// # Errors
    /// As [all of these calls](#calls-for-operators); `Config` also if the store lacks its tables.
    pub async fn check(&self) -> Result<StoreCheck, Error> {
        let (backend, env) = (self.backend(), &self.handle.env);
        // Any name will do: a read fails if the store lacks its tables.
        let name = LockName::new("leasehold check")?;
        let checks = async {
            let mut took = [Duration::ZERO; ROUND_TRIPS];
            for took in &mut took {
                let began = env.now();
                backend.inspect(&name).await?;
                *took = env.now().since(began);
            }
            took.sort_unstable();
            let clock = backend.clock_difference_micros().await?;
            let highest = backend.highest_token().await?;
            let quarantine = backend.quarantine().await?;
            Ok((took[ROUND_TRIPS / 2], clock, highest, backend.warnings().await?, quarantine))
        };
        let (round_trip, clock_difference_micros, highest_token, store_warnings, quarantine) =
            self.within(checks).await?;
        let (backend, guarantees) = (backend.kind(), self.guarantees());
        Ok(StoreCheck {
            backend,
            round_trip,
            clock_difference_micros,
            highest_token,
            store_warnings,
            quarantine,
            guarantees,
        })
    }

    /// Frees a lock, no matter which client holds it. The former holder learns of it at its next
    /// renewal. Until then it may write, and only a fence refuses its writes.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid name; otherwise as [all of these calls](#calls-for-operators).
    pub async fn force_release<N>(&self, name: N) -> Result<ReleaseOutcome, Error>
    where
        N: TryInto<LockName>,
        N::Error: Into<Error>,
    {
        let name = name.try_into().map_err(Into::into)?;
        let call = self.within(self.backend().force_release(&name)).await;
        call.map_err(|error| error.on(&name))
    }

    /// Frees a lock if its holder has this token, and changes nothing otherwise: an operator who
    /// has looked at a lock frees what they have seen, and not the next holder's. The former holder
    /// learns of it as of [`force_release`](Self::force_release).
    ///
    /// # Errors
    /// `InvalidInput` for an invalid name; `Unsupported` as
    /// [`Backend::force_release_if`](crate::Backend::force_release_if); otherwise as
    /// [all of these calls](#calls-for-operators).
    pub async fn force_release_if<N>(
        &self,
        name: N,
        token: FencingToken,
    ) -> Result<ReleaseOutcome, Error>
    where
        N: TryInto<LockName>,
        N::Error: Into<Error>,
    {
        let name = name.try_into().map_err(Into::into)?;
        let call = self.within(self.backend().force_release_if(&name, token)).await;
        call.map_err(|error| error.on(&name))
    }

    /// Creates what the store needs, or changes its settings; see
    /// [`Backend::init`](crate::Backend::init).
    ///
    /// # Errors
    /// `Unsupported` for a setting that the store does not have; `InvalidInput` for a longest lease
    /// out of range; otherwise as [all of these calls](#calls-for-operators).
    pub async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        self.within(self.backend().init(init)).await
    }

    /// Makes a call that may be dropped at any time, within the client's `call_timeout`.
    pub(super) async fn within<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let state = &self.handle.0;
        let _in_flight = ClientState::begin(&**state)?;
        let limit: Duration = state.options.call_timeout;
        let mut call = pin!(call);
        // If the store answers in the first poll, no timer is needed.
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
