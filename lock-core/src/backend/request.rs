//! The requests of the core, and the answers of a store.

use std::{any::Any, fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{FencingToken, Instant, LockName, OwnerId, OwnerLabel};

/// What kind of lock is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Mode {
    /// One holder: a writer.
    #[default]
    Exclusive,
    /// Readers: any number of them, up to [`Guarantees::most_readers`](crate::Guarantees), and no writer beside them.
    Shared,
}

impl Mode {
    /// How many readers share one lock at most where the store keeps an id of each; for one more it is `Busy`.
    pub const MOST_READERS: usize = crate::tunables::MOST_READERS;

    /// Whether locks of this mode and of `other` may be held at the same time.
    #[must_use]
    pub fn goes_with(self, other: Self) -> bool {
        self == Self::Shared && other == Self::Shared
    }
}

/// One attempt to acquire. A repeat of the same attempt has the same owner.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// The lock.
    pub name: LockName,
    /// The id of the owner: fresh for every acquisition and every place in a queue.
    pub owner: OwnerId,
    /// Its label, for operators.
    pub label: OwnerLabel,
    /// How long the store is to keep the grant without renewal.
    pub lease: Duration,
    /// The kind of lock.
    pub mode: Mode,
    /// The granted token must be larger than this.
    pub floor: FencingToken,
    /// An instant before this request leaves: a repeat has a later one.
    pub sent: Instant,
}

impl Request {
    /// A request for an exclusive lock with no floor.
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

    /// The same for a lock of this mode.
    #[must_use]
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }
}

/// A lock that the store has granted.
#[derive(Clone)]
#[non_exhaustive]
pub struct Grant {
    /// The lock.
    pub name: LockName,
    /// The owner.
    pub owner: OwnerId,
    /// What the store has granted: `Shared` only where it may be shared. A store that ignores the mode of a request
    /// grants exclusively, which is stronger.
    pub mode: Mode,
    /// Minted with the grant, kept by renewals. Readers that share a lock may all have the same; see
    /// [`Guarantees::one_token_for_readers`](crate::Guarantees).
    pub token: FencingToken,
    /// How long the store keeps the grant without renewal; renewals ask for the same.
    pub lease: Duration,
    /// The instant from which the holder counts the lease: before the request left, or earlier.
    pub from: Instant,
    /// Taken off the validity besides the drift margin, for backends with a larger error of their clocks.
    pub margin: Duration,
    /// For a grant pushed to a waiter: how long the store keeps it before a first renewal claims it.
    pub claim: Option<Duration>,
    /// Whether an earlier try of the attempt, which the backend repeated itself, may yet be carried out: the core
    /// abandons the owner after the release.
    pub doubtful: bool,
    /// The backend's own data for later calls: a lease id, votes per node.
    pub state: Option<Arc<dyn Any + Send + Sync>>,
}

impl Grant {
    /// An exclusive grant of the whole lease, counted from the request's `sent`.
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

    /// The same, of a lock of this mode.
    #[must_use]
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// The same, where an earlier try of the attempt may yet be carried out.
    #[must_use]
    pub fn doubted(mut self) -> Self {
        self.doubtful = true;
        self
    }

    /// The same, pushed to a waiter that has `claim` to confirm it by a renewal.
    #[must_use]
    pub fn pushed(mut self, claim: Duration) -> Self {
        self.claim = Some(claim);
        self
    }

    /// The same, with opaque state of the backend's.
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

/// The holder of a lock, as far as the store tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Holder {
    /// The holder's id.
    pub owner: OwnerId,
    /// The holder's label.
    pub label: OwnerLabel,
    /// The rest of its lease.
    pub remaining: Duration,
}

impl Holder {
    /// The holder with this id and label, whose lease ends after `remaining`.
    #[must_use]
    pub fn new(owner: OwnerId, label: OwnerLabel, remaining: Duration) -> Self {
        Self { owner, label, remaining }
    }

    /// Stands for the readers that share a lock, of which `label` is one, until the lease of the last of them is over. Its
    /// id is [`OwnerId::READERS`], which no owner has.
    #[must_use]
    pub fn readers(label: OwnerLabel, remaining: Duration) -> Self {
        Self { owner: OwnerId::READERS, label, remaining }
    }

    /// Stands for the holder of a lock whose record in the store cannot be read: another program wrote it, or it was
    /// damaged. The owner is 0, which no client has. The lock counts as held until the record ends, or is removed
    /// with [`Backend::force_release`](crate::Backend::force_release).
    #[must_use]
    pub fn unreadable(remaining: Duration) -> Self {
        let label = OwnerLabel::of_unreadable_record();
        Self { owner: OwnerId::from_bits(0), label, remaining }
    }

    /// Whether this is [`unreadable`](Self::unreadable). Its label is then that of `unreadable`, and nothing that a peer wrote.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        *self == Self::unreadable(self.remaining)
    }
}

/// The answer "not now".
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Busy {
    /// The holder of the lock; `None` between a release and the claim of a live place, or where the
    /// store does not tell.
    pub holder: Option<Holder>,
    /// The holder's token, or the last one granted. A later push with a token that is not larger
    /// is old.
    pub token: FencingToken,
    /// Ask again after this even if nothing is pushed.
    pub retry_after: Duration,
}

impl Busy {
    /// The answer with the holder, if the store tells, its token or the last one, and when to ask again.
    #[must_use]
    pub fn new(holder: Option<Holder>, token: FencingToken, retry_after: Duration) -> Self {
        Self { holder, token, retry_after }
    }
}

/// The store grants nothing yet: it may have lost grants, and waits until every lease that it
/// could have given is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Quarantined {
    /// How much longer.
    pub remaining: Duration,
    /// What happened to the store.
    pub why: String,
}

impl Quarantined {
    /// The answer with the rest of the quarantine, and the event that began it.
    #[must_use]
    pub fn new(remaining: Duration, why: impl Into<String>) -> Self {
        Self { remaining, why: why.into() }
    }
}

/// The answer to one attempt. There are no others: a wrapper must deal with each.
#[derive(Clone, Debug)]
pub enum Attempt {
    /// The lock is this owner's.
    Granted(Grant),
    /// Another owner holds it, or waits for it.
    Busy(Busy),
    /// The store grants nothing for now.
    Quarantined(Quarantined),
}

impl Attempt {
    /// The grant, if it is one.
    #[must_use]
    pub fn granted(self) -> Option<Grant> {
        match self {
            Self::Granted(grant) => Some(grant),
            _ => None,
        }
    }
}

/// What a release did. There are no other outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// The grant is gone, or kept for the time that was asked for.
    Released,
    /// The owner held nothing; nothing was changed.
    NotHeld,
}

/// The answer to one renewal of a batch. There are no others: a wrapper must deal with each.
#[derive(Debug)]
pub enum Renewal {
    /// The lease runs anew.
    Renewed {
        /// The instant from which it counts: the batch's `sent`, or earlier.
        from: Instant,
        /// The lease that the store set.
        lease: Duration,
    },
    /// The grant is gone for good.
    Lost(LossReason),
    /// The store did not say; the grant may live on.
    Unknown(crate::Error),
}

/// Why a guard is no longer valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LossReason {
    /// Somebody else holds the lock.
    #[error("another client holds the lock")]
    TakenOver,
    /// The store no longer has the grant: it expired, was removed by force, or was lost.
    #[error("the store no longer has the grant")]
    Gone,
    /// The lease ended on the holder's clock before a renewal went out, as after a long pause.
    #[error("the lease expired before it was renewed")]
    Expired,
    /// The lease ended while the store did not answer.
    #[error("the store did not answer until the lease had expired")]
    Unreachable,
    /// The guard's own `hold_at_most` is over.
    #[error("the time limit for holding is over")]
    HoldLimit,
    /// The client was closed.
    #[error("the client was closed")]
    Closed,
    /// The runtime that renewed the lease has ended.
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

    /// A short, stable word for it, such as `taken-over`: as it is serialized.
    #[must_use]
    pub const fn word(self) -> &'static str {
        // A new reason is to stand in `ALL`, too.
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
