//! What operators ask of a store: the state of locks, lists of them, and the store's settings.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::request::{Grant, Request};
use crate::{Error, ErrorKind, FencingToken, Holder, Instant, LockName, OwnerId, tunables};

/// The state of one lock in a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LockState {
    /// The name of the lock.
    pub name: LockName,
    /// The holder; `None` if the lock is free.
    pub holder: Option<Holder>,
    /// The holder's token. If the lock is free: the last token that the store remembers.
    pub token: FencingToken,
    /// Whether the holder has released the lock, and the store keeps it only for the minimum hold.
    /// No client renews it.
    pub kept: bool,
    /// The number of readers that share the lock; `None` if it is not shared. Crashed readers count
    /// until their leases end; in MySQL, SQLite and Redlock until the lease of the last reader
    /// ends.
    pub readers: Option<u64>,
    /// The number of queue entries; `None` if the store has no queue or does not count it here.
    pub waiting: Option<u64>,
    /// Whether the store's record of the lock cannot be read; see [`Holder::unreadable`].
    pub unreadable: bool,
}

impl LockState {
    /// A lock that is not shared and not kept for a minimum hold, with a queue of unknown length.
    #[must_use]
    pub fn new(name: LockName, holder: Option<Holder>, token: FencingToken) -> Self {
        let unreadable = holder.as_ref().is_some_and(Holder::is_unreadable);
        Self { name, holder, token, kept: false, readers: None, waiting: None, unreadable }
    }

    /// Sets [`kept`](Self::kept).
    #[must_use]
    pub fn with_kept(mut self, kept: bool) -> Self {
        self.kept = kept;
        self
    }

    /// Sets [`readers`](Self::readers).
    #[must_use]
    pub fn with_readers(mut self, readers: impl Into<Option<u64>>) -> Self {
        self.readers = readers.into();
        self
    }

    /// Sets [`waiting`](Self::waiting).
    #[must_use]
    pub fn with_waiting(mut self, entries: u64) -> Self {
        self.waiting = Some(entries);
        self
    }
}

/// Where the next page of a listing begins. Only the backend that made it can read it.
pub type Cursor = String;

/// One page of a listing of held locks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Page {
    /// The held locks, in no particular order.
    pub locks: Vec<LockState>,
    /// The cursor of the next page; `None` on the last page.
    pub next: Option<Cursor>,
}

impl Page {
    /// A page of these locks, and the cursor of the next page.
    #[must_use]
    pub fn new(locks: Vec<LockState>, next: Option<Cursor>) -> Self {
        Self { locks, next }
    }
}

/// Follows a listing from page to page, and stops one that has no end.
///
/// Without this limit, a faulty or hostile store could fill the memory of the process.
#[derive(Debug, Default)]
pub struct Listing {
    next: Option<Cursor>,
    names: usize,
}

impl Listing {
    /// A listing that begins with the first page.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The cursor of the next page, for [`Backend::list`](crate::Backend::list).
    #[must_use]
    pub fn cursor(&self) -> Option<Cursor> {
        self.next.clone()
    }

    /// Counts a page, and returns whether another page follows.
    ///
    /// # Errors
    /// `Config` for a page whose next page is itself, and for more than a million names.
    pub fn goes_on(&mut self, page: &Page) -> Result<bool, Error> {
        let refuse = |message| Err(Error::new(ErrorKind::Config, message));
        self.names += page.locks.len();
        if self.names > tunables::MOST_LISTED {
            let most = tunables::MOST_LISTED;
            return refuse(format!(
                "the store lists more than {most} held names; must be at most {most}"
            ));
        }
        if page.next.is_some() && page.next == self.next {
            return refuse(
                "the store's listing has no end: a part of it leads to itself".to_owned(),
            );
        }
        self.next.clone_from(&page.next);
        Ok(self.next.is_some())
    }
}

/// The settings for [`Backend::init`](crate::Backend::init).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Init {
    /// The operator confirms that no lock of this store can be held. The store then grants at once.
    /// Default: `false`.
    pub first_use: bool,
    /// The operator says that the store was restored to an older state, such as a snapshot, a
    /// backup or a copy. Clients may then hold locks that the store does not know. So the store
    /// grants nothing for the longest lease that may be held, and all later tokens are above those
    /// that it may have granted. A store that cannot do this refuses with `Unsupported`. Must not
    /// be combined with `first_use`. Default: `false`.
    pub restored: bool,
    /// The store's longest lease. `None`, the default, keeps the present value; a new store gets 30
    /// s.
    #[serde(with = "crate::human_duration::option")]
    pub longest_lease: Option<Duration>,
    /// Whether a quarantine follows a loss of data. `None`, the default, keeps the present value; a
    /// new store gets `true`.
    pub quarantine: Option<bool>,
    /// Sets the tokens back to the store's clock, if a client has raised them so far that they are
    /// used up. The store then grants nothing for one whole quarantine, even if the quarantine is
    /// off. Must not be combined with `first_use`. Later tokens are lower than earlier ones: a
    /// fence that has admitted an earlier token refuses all later ones until its own record is
    /// removed. Default: `false`.
    pub reset_tokens: bool,
    /// The operator confirms that the store has lost no record that still counts, although its data
    /// was lost or restored. Later reads of records are then complete; see
    /// [`RecordRead::complete_since`](crate::RecordRead::complete_since). Default: `false`.
    pub records_complete: bool,
}

impl Init {
    /// Changes nothing in a store that has settings, and creates a new store with the default
    /// settings.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            first_use: false,
            restored: false,
            longest_lease: None,
            quarantine: None,
            reset_tokens: false,
            records_complete: false,
        }
    }

    /// Sets [`first_use`](Self::first_use).
    #[must_use]
    pub const fn with_first_use(mut self, first_use: bool) -> Self {
        self.first_use = first_use;
        self
    }

    /// Sets [`restored`](Self::restored).
    #[must_use]
    pub const fn with_restored(mut self, restored: bool) -> Self {
        self.restored = restored;
        self
    }

    /// Sets [`longest_lease`](Self::longest_lease).
    #[must_use]
    pub fn with_longest_lease(mut self, longest_lease: impl Into<Option<Duration>>) -> Self {
        self.longest_lease = longest_lease.into();
        self
    }

    /// Sets [`quarantine`](Self::quarantine).
    #[must_use]
    pub fn with_quarantine(mut self, quarantine: impl Into<Option<bool>>) -> Self {
        self.quarantine = quarantine.into();
        self
    }

    /// Sets [`reset_tokens`](Self::reset_tokens).
    #[must_use]
    pub const fn with_reset_tokens(mut self, reset_tokens: bool) -> Self {
        self.reset_tokens = reset_tokens;
        self
    }

    /// Sets [`records_complete`](Self::records_complete).
    #[must_use]
    pub const fn with_records_complete(mut self, records_complete: bool) -> Self {
        self.records_complete = records_complete;
        self
    }

    /// For backends that cannot hold grants back after a restore: refuses
    /// [`restored`](Self::restored).
    ///
    /// # Errors
    /// `Unsupported` with the reason `why`, if `restored` is set.
    pub fn refuse_restored(&self, why: &str) -> Result<(), Error> {
        if self.restored {
            let message = format!("this store has no `restored`: {why}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(())
    }

    /// For backends that cannot set tokens back: refuses [`reset_tokens`](Self::reset_tokens).
    ///
    /// # Errors
    /// `Unsupported`, if `reset_tokens` is set.
    pub fn refuse_reset_tokens(&self) -> Result<(), Error> {
        if self.reset_tokens {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "this store cannot set its tokens back",
            ));
        }
        Ok(())
    }

    /// For backends that keep no records: refuses [`records_complete`](Self::records_complete).
    ///
    /// # Errors
    /// `Unsupported`, if `records_complete` is set.
    pub fn refuse_records_complete(&self) -> Result<(), Error> {
        if self.records_complete {
            return Err(Error::new(ErrorKind::Unsupported, "this store keeps no records"));
        }
        Ok(())
    }
}

/// The settings that a store keeps for all its clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoreSettings {
    /// The longest lease that a client may ask for.
    pub longest_lease: Duration,
    /// Whether a quarantine follows a loss of data; `None` if the store needs no quarantine.
    pub quarantine: Option<bool>,
    /// How much longer the store grants nothing; zero if it grants now.
    pub grants_in: Duration,
}

impl StoreSettings {
    /// The longest lease of a store for which none was set: 30 s.
    pub const DEFAULT_LONGEST_LEASE: Duration = tunables::DEFAULT_LONGEST_LEASE;

    /// The settings of a store that grants now.
    #[must_use]
    pub fn new(longest_lease: Duration, quarantine: Option<bool>) -> Self {
        Self { longest_lease, quarantine, grants_in: Duration::ZERO }
    }
}

/// The holder's grant, for [`Backend::force_release_if`](crate::Backend::force_release_if): `None`
/// if the token is not the holder's.
pub(super) fn grant_of_holder(
    state: Option<LockState>,
    token: FencingToken,
) -> Result<Option<Grant>, Error> {
    let Some(state) = state.filter(|state| state.token == token) else { return Ok(None) };
    let Some(holder) = state.holder else { return Ok(None) };
    let refuse = |why: &str| {
        let message = format!("the store cannot free one grant by its token: {why}");
        Err(Error::new(ErrorKind::Unsupported, message).on(&state.name))
    };
    if state.readers.is_some() {
        return refuse("readers share the lock");
    }
    if state.kept {
        return refuse("its holder has released it, and it is kept for its minimum hold");
    }
    if holder.is_unreadable() || holder.owner == OwnerId::FOREIGN {
        return refuse("its holder is no client of leasehold");
    }
    let (lease, now) = (holder.remaining, Instant::default());
    let request = Request::new(state.name, holder.owner, holder.label, lease, now);
    Ok(Some(Grant::new(&request, token)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_without_an_end_is_refused() {
        let name = LockName::new("job").unwrap();
        let lock = LockState::new(name, None, FencingToken::ZERO);
        let page = |names, next: Option<&str>| {
            Page::new(vec![lock.clone(); names], next.map(str::to_owned))
        };
        let mut listing = Listing::new();
        assert!(listing.goes_on(&page(1, Some("a"))).unwrap());
        assert_eq!(listing.cursor().as_deref(), Some("a"));
        let error = listing.goes_on(&page(1, Some("a"))).unwrap_err();
        assert!(error.to_string().contains("has no end"), "{error}");
        assert!(!listing.goes_on(&page(1, None)).unwrap());

        let mut listing = Listing::new();
        let pages = (0..100).map(|at| page(50_000, Some(&at.to_string())));
        let accepted = pages.map_while(|page| listing.goes_on(&page).ok()).count();
        assert_eq!(accepted * 50_000, tunables::MOST_LISTED);
    }
}
