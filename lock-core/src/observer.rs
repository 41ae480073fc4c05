//! What happens to the locks of a client, told to an observer: for metrics, alarms and records.

use std::{fmt, time::Duration};

use crate::{Error, FencingToken, LockName, LossReason, OwnerId, OwnerLabel, ReleaseOutcome};

/// Hears of the events of a client: see [`LockClient::observed_by`](crate::LockClient::observed_by).
///
/// *Guarantees*: of one acquire it hears [`Requested`](EventKind::Requested) first, and then exactly one of
/// [`Acquired`](EventKind::Acquired) and [`NotAcquired`](EventKind::NotAcquired). Of one held lock it hears `Acquired`
/// first, and then at most one of [`Lost`](EventKind::Lost) and [`Released`](EventKind::Released): none if the runtime
/// ends before the answer to the release.
///
/// *For implementers*: it is called where the event happens: in the caller's task, in the task that renews all locks of
/// the client, or in `drop`. So it must not wait, nor call the client. A panic in it is caught and changes nothing.
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
    /// Hears of one event.
    fn event(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Send + Sync + 'static> Observer for F {
    fn event(&self, event: &Event<'_>) {
        self(event);
    }
}

/// Something that happened to a lock. `Display` is one line.
///
/// All primitives are made of plain locks, and the events are those of the locks: a semaphore's slots and door, each
/// lock of [`all`](crate::all) and [`any`](crate::any), the lock of an election.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The kind of store, such as `redis`.
    pub store: &'static str,
    /// The label of the client.
    pub label: &'a OwnerLabel,
    /// The lock.
    pub name: &'a LockName,
    /// The holder's id and fencing token; `None` while it is not held.
    pub holder: Option<(OwnerId, FencingToken)>,
    /// What happened.
    pub kind: EventKind<'a>,
}

/// What happened to a lock.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum EventKind<'a> {
    /// An acquire began.
    Requested,
    /// An acquire ended with the lock.
    #[non_exhaustive]
    Acquired {
        /// How long the acquire took.
        waited: Duration,
        /// Whether the store pushed the grant to a waiter.
        pushed: bool,
    },
    /// An acquire ended without the lock.
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
        /// How long the lock was still valid when the answer came: zero would have been a loss.
        slack: Duration,
        /// The lease that the store set.
        lease: Duration,
    },
    /// A renewal was answered by an error, or has had no answer for a sixth of the lease. It is repeated while the lock
    /// is valid. Each renewal fails at most once.
    #[non_exhaustive]
    RenewalFailed {
        /// What went wrong.
        error: &'a Error,
        /// How long the lock is still valid.
        remaining: Duration,
        /// The lease.
        lease: Duration,
    },
    /// The lock was lost.
    #[non_exhaustive]
    Lost {
        /// Why.
        reason: LossReason,
        /// How long it was held.
        held: Duration,
    },
    /// The holder gave the lock back, and the call to the store has ended.
    #[non_exhaustive]
    Released {
        /// How long it was held, without the call to the store.
        held: Duration,
        /// The store's answer. After an error the lock ends with its lease.
        outcome: Result<ReleaseOutcome, &'a Error>,
    },
    /// The store answered an attempt by a quarantine. The attempt may be repeated: the event comes with each answer.
    #[non_exhaustive]
    Quarantined {
        /// How long the store still grants nothing.
        remaining: Duration,
        /// What happened to the store.
        why: &'a str,
    },
}

/// Why an acquire ended without the lock.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum NotAcquired<'a> {
    /// Another owner has the lock, or waits for it, and the wait is over.
    Busy,
    /// The store is in quarantine, and the wait is over.
    Quarantined,
    /// The store or the client failed, or refused.
    Failed(&'a Error),
    /// The caller dropped the future.
    Cancelled,
}

impl Event<'_> {
    /// A short, stable word for what happened, such as `acquired`: also the `message` of the event for `tracing`.
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
            EventKind::Quarantined { .. } => "quarantined",
        }
    }
}

impl NotAcquired<'_> {
    /// All that [`word`](Self::word) returns.
    pub const WORDS: [&'static str; 4] = ["busy", "quarantined", "failed", "cancelled"];

    /// A short, stable word for it: one of [`WORDS`](Self::WORDS).
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
            EventKind::Released { held, outcome: Ok(ReleaseOutcome::Released) } => {
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
