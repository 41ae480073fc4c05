//! The seam between the flow, written once, and a database's own SQL and clock.

use std::{fmt::Debug, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{
    Error, ErrorKind, FencingToken, Grant, Guarantees, Holder, Init, LockName, LockState, Mode,
    OwnerId, OwnerLabel, Quarantined, Request, StoreSettings, Waiter,
};

use crate::{error::USED_UP, gate::Gate, tunables::FAR_POLL};

/// One name's row.
#[derive(Clone, Debug)]
pub struct Row {
    /// The name.
    pub name: LockName,
    /// The holder, or the last one. For a reader that looks itself up, its own id where it is one of those who share.
    pub owner: Option<OwnerId>,
    /// `None` where it cannot be read.
    pub label: Option<OwnerLabel>,
    /// Of the holder, or of the last one.
    pub token: FencingToken,
    /// As the strategy compares it; 0 where it does not.
    pub version: i64,
    /// Whether it was released, and is kept for a minimum hold.
    pub kept: bool,
    /// How many readers share it.
    pub readers: Option<u64>,
    /// What is left of the lease; zero when the name is free.
    pub remaining: Duration,
    /// For how long others, who wait, go first once it is free; zero if nobody does.
    pub others_first: Duration,
    /// How many wait, where there is a queue.
    pub waiting: Option<u64>,
    /// Whether there is an entry of the one that this was read for; read in MySQL only.
    pub placed: bool,
    /// How many of them wait before the entry that this was read for.
    pub before_us: u32,
    /// Whether the statement that read this has granted it to the request that it was for, or renewed it.
    pub granted: bool,
}

/// What a release has left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The grant was not there; nothing was changed.
    NotHeld,
    /// A row with this version, free or kept for a last while.
    Free(i64),
    /// The lock was given to the first waiter.
    Taken,
}

impl From<Option<i64>> for Left {
    /// The row's new version, if the grant was there.
    fn from(version: Option<i64>) -> Self {
        version.map_or(Self::NotHeld, Self::Free)
    }
}

/// What became of the process's next request, which a release took along.
#[derive(Debug)]
pub enum Handed {
    /// It holds the lock, with this token.
    Granted(FencingToken),
    /// It is at the end of the queue, behind the one that was granted this token.
    Queued(FencingToken, Box<dyn Waiter>),
    /// Nothing: the lock was given to the first waiter, and the request is to ask for itself.
    #[cfg(feature = "postgres")]
    Passed,
}

/// A reader in the column of those who share a lock: its 32 digits and a comma.
pub(crate) const READER: usize = 33;

/// That of [`Holder::unreadable`], which is nobody's; a row that readers share has it, too.
const UNREADABLE: OwnerId = OwnerId::READERS;

/// Where a row stands in a listing, and the row.
pub type Listed = (String, Result<Row, Error>);

impl Row {
    /// A row of its columns; `remaining` is read as zero where nobody is the owner.
    ///
    /// # Errors
    /// `Config` for what is no name, which no client of ours has locked.
    pub fn read(
        name: &str,
        owner: Option<&str>,
        label: Option<&str>,
        token: i64,
        version: i64,
        remaining: Duration,
    ) -> Result<Self, Error> {
        let wrong = |error: Error| {
            let message = "a row of the locks' table is not as this version writes it";
            Error::new(ErrorKind::Config, message).with_source(error)
        };
        let known = u64::try_from(token).ok().and_then(FencingToken::new);
        // What cannot be read is nobody's, and holds the lock until its lease ends.
        let read = |owner: &str| owner.parse().ok().filter(|_| known.is_some());
        let nearest = if token < 0 { FencingToken::ZERO } else { FencingToken::MAX };
        Ok(Self {
            name: LockName::new(name).map_err(wrong)?,
            owner: owner.map(|owner| read(owner).unwrap_or(UNREADABLE)),
            label: OwnerLabel::new(label.unwrap_or_default()).ok().filter(|_| known.is_some()),
            token: known.unwrap_or(nearest),
            version,
            kept: false,
            readers: None,
            remaining: if owner.is_some() { remaining } else { Duration::ZERO },
            others_first: Duration::ZERO,
            waiting: None,
            placed: false,
            before_us: 0,
            granted: false,
        })
    }

    /// Others wait before the entry that this was read for. The first of them takes what is free, or is dead and will be
    /// passed over.
    #[cfg(any(feature = "mysql", feature = "sqlite"))]
    pub(crate) fn set_before(&mut self, others: u32) {
        self.before_us = others;
        if others > 0 {
            self.others_first = crate::tunables::LONGEST_POLL;
        }
    }

    /// So many bytes stand in the column of those who share it, if any.
    pub(crate) fn set_readers(&mut self, bytes: Option<i64>) {
        let readers = bytes.map(|bytes| bytes.unsigned_abs() / READER as u64);
        self.readers = readers.filter(|_| self.label.is_some());
    }

    pub(crate) fn is_held(&self) -> bool {
        self.owner.is_some() && !self.remaining.is_zero()
    }

    /// Whether others hold it or go first.
    pub(crate) fn is_taken(&self) -> bool {
        self.is_held() || !self.others_first.is_zero()
    }

    /// Whether a request has to wait: others hold it or go first, and it is no reader that may join them.
    pub(crate) fn refuses(&self, request: &Request) -> bool {
        let open = request.mode == Mode::Shared
            && self.others_first.is_zero()
            && self.owner == Some(OwnerId::READERS)
            && self.readers.is_some_and(|readers| readers < Mode::MOST_READERS as u64);
        self.is_taken() && !open
    }

    pub(crate) fn holder(&self) -> Option<Holder> {
        let owner = self.owner.filter(|_| self.is_held())?;
        Some(match &self.label {
            Some(label) if self.readers.is_some() => Holder::readers(label.clone(), self.remaining),
            Some(label) if owner != UNREADABLE => Holder::new(owner, label.clone(), self.remaining),
            _ => Holder::unreadable(self.remaining),
        })
    }

    pub(crate) fn into_state(self) -> LockState {
        let holder = self.holder();
        let kept = self.kept && holder.is_some();
        let readers = self.readers.filter(|_| holder.is_some());
        let state = LockState::new(self.name, holder, self.token).with_kept(kept);
        let state = state.with_readers(readers);
        match self.waiting {
            Some(entries) => state.with_waiting(entries),
            None => state,
        }
    }
}

/// The token in a column.
///
/// # Errors
/// `Config` for a number that is none.
pub fn token_of(stored: i64) -> Result<FencingToken, Error> {
    let token = u64::try_from(stored).ok().and_then(FencingToken::new);
    token.ok_or_else(|| Error::new(ErrorKind::Config, USED_UP))
}

/// A database: each method is one statement, or one transaction, and ends within the time limit of a
/// call.
#[async_trait]
pub trait Dialect: Debug + Send + Sync + 'static {
    /// The kind of the backend, for errors.
    const KIND: &'static str;

    /// Whether readers share locks. Where not, a reader's request is one for an exclusive lock, which is stronger.
    const SHARES: bool = false;

    /// The longest pause between two polls of a waiter.
    const FAR_POLL: Duration = FAR_POLL;

    /// What attempts and others pass before they take a connection; `None` where there is only one.
    fn gate(&self) -> Option<&Gate> {
        None
    }

    /// How long a call may take.
    fn timeout(&self) -> Duration;

    /// What tells this store from every other.
    async fn identity(&self) -> Result<String, Error>;

    /// Takes the store's settings over, once, or refuses the store if they are not what we were told.
    async fn agree_once(&self) -> Result<(), Error>;

    /// Refuses tables of another version, as the settings have it now. They are looked at when a client connects and
    /// when a statement does not fit the tables: `init` of a newer version renames a column in the same step, so that each
    /// statement of an older client fails by itself and costs nothing.
    async fn check_version(&self) -> Result<(), Error>;

    /// What holds as the server's settings are now.
    fn guarantees(&self) -> Arc<Guarantees>;

    /// How often a statement was repeated that may have been carried out, since its connection broke.
    fn broken(&self) -> u64;

    /// Takes a free name, or makes a reader one of those who share it; `None` if it is another's, or ours already and this
    /// does not set the lease of our own anew.
    async fn insert(&self, request: &Request) -> Result<Option<FencingToken>, Error>;

    /// Makes a free row with version 0, if there is none.
    async fn create(&self, name: &LockName) -> Result<(), Error>;

    /// Takes a row that has this version; `None` if it has another.
    async fn take(&self, request: &Request, version: i64) -> Result<Option<FencingToken>, Error>;

    /// Takes a row that this client left behind, if it has this version or if any will do. A database in
    /// which this is no cheaper than to take a free name does nothing where any will do.
    async fn retake(
        &self,
        request: &Request,
        version: Option<i64>,
    ) -> Result<Option<FencingToken>, Error> {
        match version {
            Some(version) => self.take(request, version).await,
            None => Ok(None),
        }
    }

    /// Whether this is to be [looked at](Dialect::look_to_take) before anything else: others held the name or waited
    /// for it when this client last heard, or the request has an entry in the queue.
    fn looks_first(&self, _request: &Request) -> bool {
        false
    }

    /// What is known of a name, for people or for this owner. Changes nothing.
    async fn look(&self, name: &LockName, owner: Option<OwnerId>) -> Result<Option<Row>, Error>;

    /// The same for somebody who wants the lock, which may write: a database that meets rows of clocks
    /// that it does not share lets their leases count from here on; one that has a queue looks after
    /// it, and in the same step grants what is free to a request that has a [`waiter`](Dialect::waiter), or enters it.
    async fn look_to_take(&self, request: &Request) -> Result<Option<Row>, Error> {
        self.look(&request.name, Some(request.owner)).await
    }

    /// The handle by which a request waits in the store's queue: its refused attempts then enter it.
    fn waiter(self: Arc<Self>, request: &Request) -> Box<dyn Waiter>;

    /// Renews a batch. For each, the lease that was set: what the grant asks for, or the store's longest lease where that is
    /// shorter now; `None` if it was not there. One whose row another transaction has counts as not there: a statement that
    /// waits for it would keep the rows of the others meanwhile, and be late for them.
    async fn renew(&self, grants: &[&Grant]) -> Result<Vec<Option<Duration>>, Error>;

    /// Renews one, and waits for its row.
    async fn renew_one(&self, grant: &Grant) -> Result<Option<Duration>, Error> {
        Ok(self.renew(&[grant]).await?.pop().flatten())
    }

    /// Takes a reader away from those who share a lock; whether others are left. The last one becomes a writer in the same
    /// step, and then gives the lock back as one.
    async fn part(&self, _grant: &Grant) -> Result<bool, Error> {
        Ok(false)
    }

    /// Tells the first place that it may join, if it is a reader's: this reader has joined, and had a place before it.
    async fn tell_next_reader(&self, _joined: &Request) {}

    /// Frees a grant, or lets it run out in `keep`.
    async fn release(&self, grant: &Grant, keep: Option<Duration>) -> Result<Left, Error>;

    /// Frees a grant, and gives the lock to the next request of the same process if nobody waits, or
    /// queues it. `None`: nothing was done.
    async fn hand_on(
        self: Arc<Self>,
        _grant: &Grant,
        _next: &Request,
    ) -> Result<Option<Handed>, Error> {
        Ok(None)
    }

    /// Forbids an owner, so that no statement of its that is still under way takes anything, and
    /// takes away what it has.
    async fn abandon(&self, request: &Request) -> Result<(), Error>;

    /// Why nothing is granted for now, if that is so. Asked when a name that looks free was refused.
    async fn quarantine(&self) -> Result<Option<Quarantined>, Error> {
        Ok(None)
    }

    /// Lifts the token of a grant; `false` if the grant is gone.
    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<bool, Error>;

    /// Frees a name; `false` if nobody had it. A token that is negative, or at the limit so that none is above it, becomes
    /// the highest that a grant of ours may have: the clock and the longest lease. So does a version begin anew that is out of
    /// that range. Both would keep all grants away.
    async fn force(&self, name: &LockName) -> Result<bool, Error>;

    /// Held names after the place `after`, at most `limit`, in order: the place of each, and its row if that has a name.
    async fn list(&self, after: &str, limit: u32) -> Result<Vec<Listed>, Error>;

    /// Forgets what may be forgotten: free rows if `rows`, and abandoned owners of long ago.
    async fn sweep(&self, rows: bool) -> Result<(), Error>;

    /// Creates the tables if need be, and changes settings.
    async fn init(&self, init: &Init) -> Result<StoreSettings, Error>;

    /// The store's clock, in microseconds since 1970; `None` where it is this machine's.
    async fn clock_micros(&self) -> Result<Option<i64>, Error>;

    /// The highest token of all rows, and of what was forgotten.
    async fn highest_token(&self) -> Result<i64, Error>;

    /// What an operator should know of the database as it is now.
    async fn warnings(&self) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    /// Ends connections.
    async fn close(&self);
}
