//! The trait [`Dialect`]: what the common flow needs from a database.

use std::{fmt::Debug, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{
    Error, ErrorKind, FencingToken, Grant, Guarantees, Holder, Init, LockName, LockState, Mode,
    OwnerId, OwnerLabel, Quarantined, Request, StoreSettings, Waiter,
};

use crate::{backend::poll_behind, gate::Gate, records::Records, tunables::FAR_POLL};

/// One name's row.
#[derive(Clone, Debug)]
pub struct Row {
    /// The name.
    pub name: LockName,
    /// The holder, or the last one. If a reader looks the lock up and shares it, the reader's own
    /// id.
    pub owner: Option<OwnerId>,
    /// `None` if it cannot be read.
    pub label: Option<OwnerLabel>,
    /// Of the holder, or of the last one.
    pub token: FencingToken,
    /// The version that the strategy compares; 0 if the strategy compares none.
    pub version: i64,
    /// Whether it was released, and is kept for a minimum hold.
    pub kept: bool,
    /// How many readers share it.
    pub readers: Option<u64>,
    /// What is left of the lease; zero when the name is free.
    pub remaining: Duration,
    /// How long waiters come first once the lock is free; zero if nobody waits.
    pub others_first: Duration,
    /// How many wait, where there is a queue.
    pub waiting: Option<u64>,
    /// Whether the request's owner has an entry in the queue. Only MySQL reads this.
    pub queued: bool,
    /// How many wait before the request's owner.
    pub before_us: u32,
    /// Whether the statement that read the row also granted the lock to its request, or renewed it.
    pub granted: bool,
}

/// The state after a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The grant was not there; nothing was changed.
    NotHeld,
    /// The row has this version. It is free, or kept for a minimum hold.
    Free(i64),
    /// The lock was given to the first waiter, if somebody waited.
    Taken,
}

impl From<Option<i64>> for Left {
    /// The row's new version, if the grant was there.
    fn from(version: Option<i64>) -> Self {
        version.map_or(Self::NotHeld, Self::Free)
    }
}

/// What happened to the next request of the same process, which a release carried with it.
#[derive(Debug)]
pub enum Handed {
    /// It holds the lock, with this token.
    Granted(FencingToken),
    /// It is at the end of the queue. The first waiter was granted this token.
    Queued(FencingToken, Box<dyn Waiter>),
    /// The first waiter was granted the lock. The request is not in the queue: it must ask again.
    #[cfg(feature = "postgres")]
    Passed,
}

/// The owner of [`Holder::unreadable`], which no client has. A row that readers share has it, too.
const UNREADABLE: OwnerId = OwnerId::READERS;

/// The position of a row in a listing, and the row.
pub type Listed = (String, Result<Row, Error>);

impl Row {
    /// Makes a row of its columns. Without an owner, `remaining` becomes zero.
    ///
    /// # Errors
    /// `Config` for a text that is no name. No client of ours can have locked it.
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
        // An unreadable owner or token belongs to no client, and holds the lock until its lease
        // ends.
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
            queued: false,
            before_us: 0,
            granted: false,
        })
    }

    /// Notes how many wait before the request's owner. The first of them takes a free lock, or is
    /// dead and will be skipped.
    #[cfg(any(feature = "mysql", feature = "sqlite"))]
    pub(crate) fn set_before(&mut self, others: u32) {
        self.before_us = others;
        if others > 0 {
            self.others_first = crate::tunables::LONGEST_POLL;
        }
    }

    /// Notes how many readers share the row, if it is shared.
    pub(crate) fn set_readers(&mut self, readers: Option<i64>) {
        let readers = readers.map(i64::unsigned_abs);
        self.readers = readers.filter(|_| self.label.is_some());
    }

    pub(crate) fn is_held(&self) -> bool {
        self.owner.is_some() && !self.remaining.is_zero()
    }

    /// Whether somebody holds the lock, or goes first.
    pub(crate) fn is_taken(&self) -> bool {
        self.is_held() || !self.others_first.is_zero()
    }

    /// Whether a request has to wait: somebody holds the lock or goes first, and the request is not
    /// of a reader that may join.
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

/// A database. Each method is one statement or one transaction, and ends within the time limit of a
/// call.
#[async_trait]
pub trait Dialect: Records + Debug + Send + Sync + 'static {
    /// The kind of the backend, for errors.
    const KIND: &'static str;

    /// Whether readers share locks. If not, a reader gets an exclusive lock, which is stronger.
    const SHARES: bool = false;

    /// The longest pause between two polls of a waiter.
    const FAR_POLL: Duration = FAR_POLL;

    /// Limits how many connections each kind of call may take; `None` for a database with one
    /// connection.
    fn gate(&self) -> Option<&Gate> {
        None
    }

    /// How long a call may take.
    fn timeout(&self) -> Duration;

    /// A text that identifies this store among all others.
    async fn identity(&self) -> Result<String, Error>;

    /// Reads the store's settings, once. Refuses the store if they differ from this client's
    /// options.
    async fn agree_once(&self) -> Result<(), Error>;

    /// Refuses tables of another version, by the version that the settings have now. A client calls
    /// this when it connects, and when a statement does not fit the tables. `init` of a newer
    /// version renames a column in the same step, so every statement of an older client fails. So
    /// no statement needs to read the version.
    async fn check_version(&self) -> Result<(), Error>;

    /// What the store promises with its present settings.
    fn guarantees(&self) -> Arc<Guarantees>;

    /// How often a statement was repeated because its connection broke, although it may have been
    /// carried out.
    fn broken(&self) -> u64;

    /// Takes a free name, or adds a reader to those who share it. `None` if another owner has it,
    /// or if this owner has it already and the database does not renew its lease here.
    async fn insert(&self, request: &Request) -> Result<Option<FencingToken>, Error>;

    /// Makes a free row with version 0, if there is none.
    async fn create_row(&self, name: &LockName) -> Result<(), Error>;

    /// Takes a row that has this version; `None` if it has another.
    async fn take(&self, request: &Request, version: i64) -> Result<Option<FencingToken>, Error>;

    /// Takes a row that this client released. With `version` only if the row still has that
    /// version. Without, any version will do, but a database does nothing if this is no cheaper
    /// than [`insert`](Dialect::insert).
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

    /// The longest pause between two polls of a waiter with this many others before it.
    fn poll(&self, _owner: OwnerId, others: u32) -> Duration {
        poll_behind::<Self>(others)
    }

    /// Whether the client should first [read the row](Dialect::read_to_take): others held the name
    /// or waited for it when the client last read its row, or the request has an entry in the
    /// queue.
    fn reads_first(&self, _request: &Request) -> bool {
        false
    }

    /// Whether others held the name or waited for it when the client last read its row, and a
    /// request for a queue entry costs no more than an attempt.
    fn was_busy(&self, _name: &LockName) -> bool {
        false
    }

    /// Reads the row of a name, for an operator or for this owner. Changes nothing.
    async fn read_row(&self, name: &LockName, owner: Option<OwnerId>)
    -> Result<Option<Row>, Error>;

    /// Reads the row of a name for a request that wants the lock. It may write: if the row belongs
    /// to another clock, its lease counts from now on, and dead queue entries may be removed. If
    /// the request has a [`waiter`](Dialect::waiter), the same step grants it a free lock or enters
    /// it in the queue.
    async fn read_to_take(&self, request: &Request) -> Result<Option<Row>, Error> {
        self.read_row(&request.name, Some(request.owner)).await
    }

    /// The handle by which a request waits in the store's queue. From now on a refused attempt
    /// enters the request there.
    fn waiter(self: Arc<Self>, request: &Request) -> Box<dyn Waiter>;

    /// Renews a batch. Returns for each grant the lease that was set: the one that the grant asks
    /// for, or the store's longest lease if that is shorter now. `None` if the grant was not there.
    /// A grant whose row another transaction has locked counts as not there: if the statement
    /// waited for that row, it would keep the other rows locked and be late for them.
    async fn renew(&self, grants: &[&Grant]) -> Result<Vec<Option<Duration>>, Error>;

    /// Whether a grant that this owner was found to have may be used. If not, this gives it back.
    async fn is_usable(&self, _request: &Request, _grant: &Grant) -> Result<bool, Error> {
        Ok(true)
    }

    /// Renews one grant, and waits for its row.
    async fn renew_one(&self, grant: &Grant) -> Result<Option<Duration>, Error> {
        Ok(self.renew(&[grant]).await?.pop().flatten())
    }

    /// Removes a reader from those who share a lock. Returns whether others are left. The last
    /// reader becomes a writer in the same step, and must then release the lock as a writer.
    async fn part(&self, _grant: &Grant) -> Result<bool, Error> {
        Ok(false)
    }

    /// Wakes the first waiter if it is a reader: the reader `joined` stood before it in the queue,
    /// and now shares the lock.
    async fn tell_next_reader(&self, _joined: &Request) {}

    /// Frees a grant now, or after `keep`.
    async fn release(&self, grant: &Grant, keep: Option<Duration>) -> Result<Left, Error>;

    /// Frees a grant. If nobody waits, the next request of the same process gets the lock;
    /// otherwise it may enter the queue. `None`: nothing was done.
    async fn hand_on(
        self: Arc<Self>,
        _grant: &Grant,
        _next: &Request,
    ) -> Result<Option<Handed>, Error> {
        Ok(None)
    }

    /// Removes everything that an owner has, and bars the owner: a late statement of it takes
    /// nothing.
    async fn abandon(&self, request: &Request) -> Result<(), Error>;

    /// Why the store grants nothing for now, if that is so. Called after a name that looks free was
    /// refused.
    async fn quarantine(&self) -> Result<Option<Quarantined>, Error> {
        Ok(None)
    }

    /// The quarantine that runs now. It begins none.
    async fn running_quarantine(&self) -> Result<Option<Quarantined>, Error> {
        Ok(None)
    }

    /// Raises the token of a grant; `false` if the grant is gone.
    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<bool, Error>;

    /// Gives a held lock to the owner of `request`, which has its lease from now on; `false` if the
    /// grant does not hold it alone. By default it cannot.
    async fn reown(&self, _grant: &Grant, _request: &Request) -> Result<bool, Error> {
        Err(Error::new(ErrorKind::Unsupported, "this store hands no held lock over"))
    }

    /// Frees a name; `false` if nobody had it. Also repairs values that would prevent every grant.
    /// A token that is negative, or so high that none is above it, becomes the highest that a grant
    /// may have: the clock plus the longest lease. A version out of range starts again.
    async fn force(&self, name: &LockName) -> Result<bool, Error>;

    /// Lists at most `limit` held names behind the position `after`, in order: the position of
    /// each, and its row if the row has a valid name.
    async fn list(&self, after: &str, limit: u32) -> Result<Vec<Listed>, Error>;

    /// Deletes what is kept of owners that were abandoned long ago, records that are over and, if
    /// `rows`, the rows of free names.
    async fn sweep(&self, rows: bool) -> Result<(), Error>;

    /// Creates the tables if need be, and changes settings.
    async fn init(&self, init: &Init) -> Result<StoreSettings, Error>;

    /// The store's clock, in microseconds since 1970; `None` if it is this machine's clock.
    async fn clock_micros(&self) -> Result<Option<i64>, Error>;

    /// The highest token of all rows and of all deleted rows.
    async fn highest_token(&self) -> Result<i64, Error>;

    /// What an operator should know about the present state of the database.
    async fn warnings(&self) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    /// Closes connections.
    async fn close(&self);
}
