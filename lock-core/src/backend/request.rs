//! The requests of the core, and the answers of a store.

use std::{any::Any, fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{Blocked, Error, ErrorKind, FencingToken, Instant, LockName, OwnerId, OwnerLabel};

/// Whether a lock is exclusive or shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Mode {
    /// One holder: a writer.
    #[default]
    Exclusive,
    /// Readers: up to [`Guarantees::most_readers`](crate::Guarantees) of them, and no writer at the
    /// same time.
    Shared,
}

impl Mode {
    /// The most readers of one lock in a store that keeps an id of each. For one more the lock is
    /// `Busy`.
    pub const MOST_READERS: usize = crate::tunables::MOST_READERS;

    /// Whether locks of this mode and of `other` may be held at the same time.
    #[must_use]
    pub fn goes_with(self, other: Self) -> bool {
        self == Self::Shared && other == Self::Shared
    }
}

/// One attempt to acquire a lock. A repeat of the same attempt has the same owner.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// The lock.
    pub name: LockName,
    /// The id of the owner: a new one for each acquire and each queue entry.
    pub owner: OwnerId,
    /// The owner's label, for operators.
    pub label: OwnerLabel,
    /// How long the store keeps the grant without renewal.
    pub lease: Duration,
    /// Exclusive or shared.
    pub mode: Mode,
    /// The granted token must be larger than this.
    pub floor: FencingToken,
    /// An instant before the client sends this request. A repeat has a later one.
    pub sent: Instant,
}

impl Request {
    /// A request for an exclusive lock, without a floor.
    #[must_use]
    pub fn new(
        name: LockName,
        owner: OwnerId,
        label: OwnerLabel,
        lease: Duration,
        sent: Instant,
    ) -> Self {
        let (mode, floor) = (Mode::Exclusive, FencingToken::ZERO);
        Self { name, owner, label, lease, mode, floor, sent }
    }

    /// Sets [`mode`](Self::mode).
    #[must_use]
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }
}

/// A lock that the store has granted to an owner.
#[derive(Clone)]
#[non_exhaustive]
pub struct Grant {
    /// The lock.
    pub name: LockName,
    /// The owner.
    pub owner: OwnerId,
    /// What the store has granted: `Shared` only if other readers may share the lock. A store that
    /// ignores the mode of a request grants exclusively, which is stronger.
    pub mode: Mode,
    /// The fencing token, made with the grant. Renewals keep it. Readers that share a lock may have
    /// the same token; see [`Guarantees::one_token_for_readers`](crate::Guarantees).
    pub token: FencingToken,
    /// How long the store keeps the grant without renewal. Renewals ask for the same.
    pub lease: Duration,
    /// The instant from which the holder counts the lease: before the client sent the request, or
    /// earlier.
    pub from: Instant,
    /// Subtracted from the validity in addition to the drift margin, by backends whose clocks may
    /// be further off. Default: zero.
    pub margin: Duration,
    /// If the store pushed the grant to a waiter: the claim window, which is how long the store
    /// keeps the grant before the first renewal.
    pub claim: Option<Duration>,
    /// Whether the backend repeated the attempt itself, and the store may still carry out an
    /// earlier try. The core then abandons the owner after the release.
    pub doubtful: bool,
    /// Data of the backend for later calls, such as a lease id or the votes of nodes.
    pub state: Option<Arc<dyn Any + Send + Sync>>,
}

impl Grant {
    /// An exclusive grant of the requested lease, counted from the request's `sent`.
    #[must_use]
    pub fn new(request: &Request, token: FencingToken) -> Self {
        Self {
            name: request.name.clone(),
            owner: request.owner,
            mode: Mode::Exclusive,
            token,
            lease: request.lease,
            from: request.sent,
            margin: Duration::ZERO,
            claim: None,
            doubtful: false,
            state: None,
        }
    }

    /// Sets [`mode`](Self::mode).
    #[must_use]
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets [`doubtful`](Self::doubtful).
    #[must_use]
    pub fn doubted(mut self) -> Self {
        self.doubtful = true;
        self
    }

    /// Marks the grant as pushed to a waiter, which must confirm it by a renewal within `claim`.
    #[must_use]
    pub fn pushed(mut self, claim: Duration) -> Self {
        self.claim = Some(claim);
        self
    }

    /// Sets [`state`](Self::state).
    #[must_use]
    pub fn with_state(mut self, state: Arc<dyn Any + Send + Sync>) -> Self {
        self.state = Some(state);
        self
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant")
            .field("name", &self.name)
            .field("owner", &self.owner)
            .field("mode", &self.mode)
            .field("token", &self.token)
            .field("lease", &self.lease)
            .field("from", &self.from)
            .field("claim", &self.claim)
            .field("doubtful", &self.doubtful)
            .finish_non_exhaustive()
    }
}

/// The holder of a lock, as the store shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Holder {
    /// The holder's id.
    pub owner: OwnerId,
    /// The holder's label.
    pub label: OwnerLabel,
    /// How long its lease still lasts.
    pub remaining: Duration,
}

impl Holder {
    /// A holder with this id and label, whose lease ends after `remaining`.
    #[must_use]
    pub fn new(owner: OwnerId, label: OwnerLabel, remaining: Duration) -> Self {
        Self { owner, label, remaining }
    }

    /// How long a lease without an end is said to last: longer than any other.
    pub const WITHOUT_END: Duration = Duration::from_secs(99 * 366 * 24 * 60 * 60);

    /// Whether the lease has no end: a client of another library may have set none, and crashed.
    #[must_use]
    pub fn has_no_end(&self) -> bool {
        self.remaining >= Self::WITHOUT_END
    }

    /// Represents a holder that is a client of another library. Its id is [`OwnerId::FOREIGN`],
    /// which no owner has.
    #[must_use]
    pub fn foreign(label: OwnerLabel, remaining: Duration) -> Self {
        Self { owner: OwnerId::FOREIGN, label, remaining }
    }

    /// Represents all readers that share a lock. `label` is the label of one of them, and
    /// `remaining` lasts until the last of their leases ends. The id is [`OwnerId::READERS`], which
    /// no owner has.
    #[must_use]
    pub fn readers(label: OwnerLabel, remaining: Duration) -> Self {
        Self { owner: OwnerId::READERS, label, remaining }
    }

    /// Represents the holder of a lock whose record cannot be read, because another program wrote
    /// it or it is damaged. The owner is 0, which no client has. The lock counts as held until the
    /// record expires, or until [`Backend::force_release`](crate::Backend::force_release) removes
    /// it.
    #[must_use]
    pub fn unreadable(remaining: Duration) -> Self {
        let label = OwnerLabel::of_unreadable_record();
        Self { owner: OwnerId::from_bits(0), label, remaining }
    }

    /// Whether this is [`unreadable`](Self::unreadable). The label is then ours, and not written by
    /// another client.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        *self == Self::unreadable(self.remaining)
    }
}

/// The lock is held, or others wait for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Busy {
    /// The holder of the lock. `None` between a release and the claim of a live waiter, or if the
    /// store does not show it.
    pub holder: Option<Holder>,
    /// The holder's token, or the last token granted. A later push whose token is not larger is
    /// stale.
    pub token: FencingToken,
    /// When to poll again, even if nothing is pushed.
    pub retry_after: Duration,
}

impl Busy {
    /// A busy lock with its holder, if known, the last token, and the time until the next poll.
    #[must_use]
    pub fn new(holder: Option<Holder>, token: FencingToken, retry_after: Duration) -> Self {
        Self { holder, token, retry_after }
    }
}

/// The store is in quarantine. It may have lost grants, so it grants nothing until every lease that
/// it may have given is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Quarantined {
    /// How much longer the quarantine lasts.
    pub remaining: Duration,
    /// What happened to the store.
    pub why: String,
}

impl Quarantined {
    /// A quarantine that lasts for another `remaining`, and its cause.
    #[must_use]
    pub fn new(remaining: Duration, why: impl Into<String>) -> Self {
        Self { remaining, why: why.into() }
    }
}

/// What a call gets that the store refuses because of its quarantine.
impl From<Quarantined> for Error {
    fn from(quarantined: Quarantined) -> Self {
        let message = "the store is in quarantine, and hands no held lock over";
        Self::new(ErrorKind::Unavailable, message).blocked_by(Blocked::Quarantined(quarantined))
    }
}

/// The answer to one attempt. The list is complete: a wrapper must handle each variant.
#[derive(Clone, Debug)]
pub enum Attempt {
    /// This owner has the lock.
    Granted(Grant),
    /// Another owner holds the lock, or waits for it.
    Busy(Busy),
    /// The store grants nothing for now.
    Quarantined(Quarantined),
}

impl Attempt {
    /// The grant, if the answer is one.
    #[must_use]
    pub fn granted(self) -> Option<Grant> {
        match self {
            Self::Granted(grant) => Some(grant),
            _ => None,
        }
    }
}

/// What a release did. The list is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// The grant is gone, or kept for the requested time.
    Released,
    /// The owner held nothing; the call changed nothing.
    NotHeld,
}

/// The answer to one renewal of a batch. The list is complete: a wrapper must handle each variant.
#[derive(Debug)]
pub enum Renewal {
    /// The store has set a new lease.
    Renewed {
        /// The instant from which the lease counts: the batch's `sent`, or earlier.
        from: Instant,
        /// The lease that the store has set.
        lease: Duration,
    },
    /// The grant is gone for good.
    Lost(LossReason),
    /// There is no answer; the store may still have the grant.
    Unknown(crate::Error),
}

/// Why a guard is no longer valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LossReason {
    /// Another client holds the lock.
    #[error("another client holds the lock")]
    TakenOver,
    /// The store no longer has the grant: it expired, was removed by force, or was lost.
    #[error("the store no longer has the grant")]
    Gone,
    /// The lease ended on the holder's clock before the client sent a renewal, as after a long
    /// pause of the process.
    #[error("the lease expired before it was renewed")]
    Expired,
    /// The lease ended while the store did not answer.
    #[error("the store did not answer until the lease had expired")]
    Unreachable,
    /// The `hold_at_most` of the lock is over.
    #[error("the time limit for holding is over")]
    HoldLimit,
    /// The client was closed.
    #[error("the client was closed")]
    Closed,
    /// The runtime that renewed the lease has ended, and no other runtime used the client.
    #[error("the runtime that renewed the lease has ended")]
    RuntimeEnded,
}

impl LossReason {
    /// All reasons.
    pub const ALL: [Self; 7] = [
        Self::TakenOver,
        Self::Gone,
        Self::Expired,
        Self::Unreachable,
        Self::HoldLimit,
        Self::Closed,
        Self::RuntimeEnded,
    ];

    /// A short, stable word, such as `taken-over`. It is also the serialized form.
    #[must_use]
    pub const fn word(self) -> &'static str {
        // Add a new reason to `ALL`, too.
        match self {
            Self::TakenOver => "taken-over",
            Self::Gone => "gone",
            Self::Expired => "expired",
            Self::Unreachable => "unreachable",
            Self::HoldLimit => "hold-limit",
            Self::Closed => "closed",
            Self::RuntimeEnded => "runtime-ended",
        }
    }
}
