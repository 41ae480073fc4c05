//! The events of a client's locks, and the observer that receives them: for metrics, alerts and
//! audit logs.

use std::{fmt, time::Duration};

use crate::{Error, FencingToken, LockName, LossReason, OwnerId, OwnerLabel, ReleaseOutcome};

/// Receives the events of a client; see
/// [`LockClient::observed_by`](crate::LockClient::observed_by).
///
/// # Guarantees
///
/// Each acquire has one [`Requested`](EventKind::Requested), followed by exactly one
/// [`Acquired`](EventKind::Acquired) or [`NotAcquired`](EventKind::NotAcquired). For each held
/// lock, at most one [`Lost`](EventKind::Lost), [`Released`](EventKind::Released) or
/// [`Detached`](EventKind::Detached) follows `Acquired`; none if the runtime ends before the answer
/// to the release. An attach is an acquire.
///
/// # For implementers
///
/// The client calls the observer where the event happens: in the caller's task, in the task that
/// renews all locks of the client, or in `drop`. So it must not wait, and must not call the client.
/// The client catches a panic of the observer and goes on.
///
/// A closure is an observer, too:
///
/// ```
/// use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::Error> {
/// # use lock_core as leasehold;
/// # let client = leasehold::LockClient::new(Arc::new(leasehold::Memory::new()));
/// let client = client.observed_by(Arc::new(|event: &leasehold::Event<'_>| println!("{event}")))?;
/// client.lock("job").acquire().await?.release().await?;
/// # Ok(())
/// # }
/// ```
pub trait Observer: Send + Sync + 'static {
    /// Receives one event.
    fn event(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Send + Sync + 'static> Observer for F {
    fn event(&self, event: &Event<'_>) {
        self(event);
    }
}

/// Something that happened to a lock. `Display` is one line.
///
/// All primitives consist of plain locks and have the events of these locks: the slots and the door
/// of a semaphore, each lock of [`all`](crate::all) and [`any`](crate::any), the lock of an
/// election.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The kind of store, such as `redis`.
    pub store: &'static str,
    /// The label of the client.
    pub label: &'a OwnerLabel,
    /// The lock.
    pub name: &'a LockName,
    /// The holder's id and fencing token; `None` if this client does not hold the lock.
    pub holder: Option<(OwnerId, FencingToken)>,
    /// What happened.
    pub kind: EventKind<'a>,
}

/// What happened to a lock.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum EventKind<'a> {
    /// An acquire has begun.
    Requested,
    /// An acquire has ended with the lock.
    #[non_exhaustive]
    Acquired {
        /// How long the acquire took.
        waited: Duration,
        /// Whether the store pushed the grant to a waiter.
        pushed: bool,
    },
    /// An acquire has ended without the lock.
    #[non_exhaustive]
    NotAcquired {
        /// Why it ended.
        why: NotAcquired<'a>,
        /// How long the acquire took.
        waited: Duration,
    },
    /// The store has confirmed a renewal.
    #[non_exhaustive]
    Renewed {
        /// The time from the request to the answer.
        took: Duration,
        /// How long the lock would still have been valid without this renewal. At zero it would
        /// have been lost.
        slack: Duration,
        /// The lease that the store has set.
        lease: Duration,
    },
    /// A renewal got an error, or no answer for a sixth of the lease. The client tries again while
    /// the lock is valid. There is one such event for each such renewal. The log has fewer lines:
    /// the first, and then at most one per quarter of the lease, and one for all locks that failed
    /// in the same call.
    #[non_exhaustive]
    RenewalFailed {
        /// The error.
        error: &'a Error,
        /// How long the lock is still valid.
        remaining: Duration,
        /// The lease.
        lease: Duration,
    },
    /// The lock was lost.
    #[non_exhaustive]
    Lost {
        /// Why it was lost.
        reason: LossReason,
        /// How long it was held.
        held: Duration,
    },
    /// The holder released the lock, and the call to the store has ended.
    #[non_exhaustive]
    Released {
        /// How long the lock was held, without the call to the store.
        held: Duration,
        /// The store's answer. After an error the lock ends with its lease.
        outcome: Result<ReleaseOutcome, &'a Error>,
    },
    /// The holder has [detached](crate::Guard::detach) the lock: it stays held, for another client.
    #[non_exhaustive]
    Detached {
        /// How long this client held it.
        held: Duration,
    },
    /// The store is in quarantine and refused an attempt. The client may repeat the attempt: each
    /// answer is an event. The log has one line per minute.
    #[non_exhaustive]
    Quarantined {
        /// How much longer the store grants nothing.
        remaining: Duration,
        /// What happened to the store.
        why: &'a str,
    },
}

/// Why an acquire ended without the lock.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum NotAcquired<'a> {
    /// The wait ended while another owner held the lock or waited for it.
    Busy,
    /// The wait ended while the store was in quarantine.
    Quarantined,
    /// The store or the client failed, or refused the request.
    Failed(&'a Error),
    /// The caller dropped the future.
    Cancelled,
}

impl Event<'_> {
    /// A short, stable word for the event, such as `acquired`. It is also the `message` of the
    /// `tracing` event.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self.kind {
            EventKind::Requested => "requested",
            EventKind::Acquired { .. } => "acquired",
            EventKind::NotAcquired { .. } => "not acquired",
            EventKind::Renewed { .. } => "renewed",
            EventKind::RenewalFailed { .. } => "renewal failed",
            EventKind::Lost { .. } => "lock lost",
            EventKind::Released { .. } => "released",
            EventKind::Detached { .. } => "detached",
            EventKind::Quarantined { .. } => "quarantined",
        }
    }
}

impl NotAcquired<'_> {
    /// All that [`word`](Self::word) returns.
    pub const WORDS: [&'static str; 4] = ["busy", "quarantined", "failed", "cancelled"];

    /// A short, stable word: one of [`WORDS`](Self::WORDS).
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Quarantined => "quarantined",
            Self::Failed(_) => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lock {:?}: {}", self.name, self.word())?;
        if let Some((_, token)) = self.holder {
            write!(f, ", token {token}")?;
        }
        match self.kind {
            EventKind::Requested => Ok(()),
            EventKind::Acquired { waited, .. } => write!(f, ", waited {waited:?}"),
            EventKind::NotAcquired { why: NotAcquired::Failed(error), waited } => {
                write!(f, ", waited {waited:?}: {error}")
            }
            EventKind::NotAcquired { why, waited } => {
                write!(f, ", waited {waited:?}: {}", why.word())
            }
            EventKind::Renewed { took, slack, .. } => write!(f, ", took {took:?}, slack {slack:?}"),
            EventKind::RenewalFailed { error, remaining, .. } => {
                write!(f, ", remaining {remaining:?}: {error}")
            }
            EventKind::Lost { reason, held } => write!(f, ", held {held:?}: {reason}"),
            EventKind::Detached { held }
            | EventKind::Released { held, outcome: Ok(ReleaseOutcome::Released) } => {
                write!(f, ", held {held:?}")
            }
            EventKind::Released { held, outcome: Ok(ReleaseOutcome::NotHeld) } => {
                write!(f, ", held {held:?}: the store no longer had it")
            }
            EventKind::Released { held, outcome: Err(error) } => {
                write!(f, ", held {held:?}: {error}")
            }
            EventKind::Quarantined { remaining, why } => {
                write!(f, ", remaining {remaining:?}: {why}")
            }
        }
    }
}
