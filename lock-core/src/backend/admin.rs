//! The calls of operators.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, FencingToken, Holder, LockName, tunables};

/// The state of one name in a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LockState {
    /// The name.
    pub name: LockName,
    /// Its holder.
    pub holder: Option<Holder>,
    /// The holder's token, or the last one that the store remembers.
    pub token: FencingToken,
    /// Whether the holder has released it, and it is only kept for a minimum hold: no client renews it.
    pub kept: bool,
    /// How many readers share it; `None` where it is not shared. Those that have crashed count until the lease of the
    /// last one is over.
    pub readers: Option<u64>,
    /// How many places wait, where the store keeps a queue.
    pub waiting: Option<u64>,
    /// Whether the store's record of it cannot be read; see [`Holder::unreadable`].
    pub unreadable: bool,
}

impl LockState {
    /// The state of a lock that is not released, with no known queue.
    #[must_use]
    pub fn new(name: LockName, holder: Option<Holder>, token: FencingToken) -> Self {
        let unreadable = holder.as_ref().is_some_and(Holder::is_unreadable);
        Self { name, holder, token, kept: false, readers: None, waiting: None, unreadable }
    }

    /// The same, released and kept for a minimum hold, or not.
    #[must_use]
    pub fn with_kept(mut self, kept: bool) -> Self {
        self.kept = kept;
        self
    }

    /// The same, shared by this many readers, or not shared.
    #[must_use]
    pub fn with_readers(mut self, readers: impl Into<Option<u64>>) -> Self {
        self.readers = readers.into();
        self
    }

    /// The same, with a queue of this many places.
    #[must_use]
    pub fn with_waiting(mut self, places: u64) -> Self {
        self.waiting = Some(places);
        self
    }
}

/// Where a listing goes on: opaque, of the backend's making.
pub type Cursor = String;

/// A part of a listing of held names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Page {
    /// Held names, in no particular order.
    pub locks: Vec<LockState>,
    /// Where to go on; `None` at the end.
    pub next: Option<Cursor>,
}

impl Page {
    /// A part of a listing, and where to go on.
    #[must_use]
    pub fn new(locks: Vec<LockState>, next: Option<Cursor>) -> Self {
        Self { locks, next }
    }
}

/// Follows a listing from page to page, and refuses one without end: a store that is not what it says could otherwise fill
/// the memory of the process.
#[derive(Debug, Default)]
pub struct Listing {
    next: Option<Cursor>,
    names: usize,
}

impl Listing {
    /// A listing from the start.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Where the next page begins: for [`Backend::list`](crate::Backend::list).
    #[must_use]
    pub fn cursor(&self) -> Option<Cursor> {
        self.next.clone()
    }

    /// Notes a page; whether another one follows.
    ///
    /// # Errors
    /// `Config` for a page that leads to itself, and after a million names.
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
    /// The operator's word that no lock of this store can be held: grants start at once.
    pub first_use: bool,
    /// The operator's word that the store was set back to an older state, such as a snapshot, a backup or a
    /// copy: locks may be held that it does not know. Nothing is granted for the longest lease that may
    /// be held, and all later tokens are above those that may have been granted. A store that
    /// cannot do this refuses with `Unsupported`. It contradicts `first_use`.
    pub restored: bool,
    /// The store's longest lease; `None` keeps what is set, or 30 s on a new store.
    #[serde(with = "crate::time::humane::option")]
    pub longest_lease: Option<Duration>,
    /// Whether a loss of data is followed by a quarantine; `None` keeps what is set, or on.
    pub quarantine: Option<bool>,
    /// Sets the tokens back to the store's clock, where a client has set them so far ahead that they are used up.
    /// The store grants nothing for a whole quarantine, also where that is off, and not with `first_use`. Tokens
    /// are lower than before then: a fence that admitted one of those refuses all of these, until its own record
    /// is removed.
    pub reset_tokens: bool,
}

impl Init {
    /// Settings that change nothing in a store that has some.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            first_use: false,
            restored: false,
            longest_lease: None,
            quarantine: None,
            reset_tokens: false,
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

    /// Refuses [`restored`](Self::restored) in a store that cannot hold grants back on an operator's word.
    ///
    /// # Errors
    /// `Unsupported` with the reason, if it was asked for.
    pub fn refuse_restored(&self, why: &str) -> Result<(), Error> {
        if self.restored {
            let message = format!("this store has no `restored`: {why}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(())
    }

    /// Refuses [`reset_tokens`](Self::reset_tokens) in a store that cannot set its tokens back.
    ///
    /// # Errors
    /// `Unsupported`, if it was asked for.
    pub fn refuse_reset_tokens(&self) -> Result<(), Error> {
        if self.reset_tokens {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "this store cannot set its tokens back",
            ));
        }
        Ok(())
    }
}

/// The settings that a store keeps for all its clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoreSettings {
    /// The longest lease.
    pub longest_lease: Duration,
    /// Whether a loss of data is followed by a quarantine; `None` where the store needs none.
    pub quarantine: Option<bool>,
    /// How long the store still grants nothing.
    pub grants_in: Duration,
}

impl StoreSettings {
    /// The longest lease of a store where none was set: 30 s.
    pub const DEFAULT_LONGEST_LEASE: Duration = tunables::DEFAULT_LONGEST_LEASE;

    /// The settings of a store that grants at once.
    #[must_use]
    pub fn new(longest_lease: Duration, quarantine: Option<bool>) -> Self {
        Self { longest_lease, quarantine, grants_in: Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_has_an_end() {
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
        let told: Vec<_> = pages.map_while(|page| listing.goes_on(&page).ok()).collect();
        assert_eq!(told.len() * 50_000, tunables::MOST_LISTED);
    }
}
