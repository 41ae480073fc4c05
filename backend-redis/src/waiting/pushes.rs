//! The waiters of this process, by owner, and the pushes for them.

use std::{
    collections::{HashMap, hash_map::Entry},
    str::FromStr,
    sync::{
        MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use lock_core::{Busy, FencingToken, Grant, Instant, Mutex, OwnerId, Request, Signal};
use tokio::sync::mpsc;

use crate::{
    connection::PushListener,
    keys::{Bucket, Keys},
    tunables::{FAR_HEARTBEAT, HEARTBEAT_STEP, LOCK_READ_AGAIN, NEAR_HEARTBEAT},
};

/// This client's waiters by owner, and the channels that those of a bucket share.
#[derive(Debug)]
pub(crate) struct Pushes {
    channels: Box<[String]>,
    waiters: Mutex<HashMap<OwnerId, Waiting>>,
    /// How many waiters each bucket has. Changed only while `waiters` is locked.
    waiting: Box<[AtomicUsize]>,
    /// Distinguishes an entry from one that a repeat of its request made later.
    entered: AtomicU64,
    /// A push only tells the waiter to ask again: replicas must first acknowledge the grant.
    only_rechecks: bool,
    /// When this client's heartbeats are due, after each whole [`HEARTBEAT_STEP`].
    phase: Duration,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    bucket: Bucket,
    request: Request,
    wake: mpsc::UnboundedSender<Signal>,
    /// The entry was far from the head in the server's last answer.
    far: bool,
    /// The state of the lock when it was last read, the instant from which that counts, and the
    /// instant until which it need not be read again.
    last_read: Option<(Busy, Instant, Instant)>,
}

impl Pushes {
    /// With `only_rechecks` a push only tells the waiter to ask again.
    pub(crate) fn new(keys: &Keys, client: u128, only_rechecks: bool) -> Self {
        let channels = keys.buckets().map(|bucket| keys.channel(bucket, client)).collect();
        let waiting = keys.buckets().map(|_| AtomicUsize::new(0)).collect();
        let (waiters, entered) = (Mutex::default(), AtomicU64::new(0));
        let phase = Duration::from_nanos((client % HEARTBEAT_STEP.as_nanos()) as u64);
        Self { channels, waiters, waiting, entered, only_rechecks, phase }
    }

    fn waiters(&self) -> MutexGuard<'_, HashMap<OwnerId, Waiting>> {
        self.waiters.lock()
    }

    /// Registers a waiter, before the server knows of it.
    pub(crate) fn enter(
        &self,
        bucket: Bucket,
        request: &Request,
    ) -> (u64, mpsc::UnboundedReceiver<Signal>) {
        let (wake, signals) = mpsc::unbounded_channel();
        let number = self.entered.fetch_add(1, Ordering::Relaxed);
        let waiting =
            Waiting { number, bucket, request: request.clone(), wake, far: false, last_read: None };
        let mut waiters = self.waiters();
        self.count(bucket).fetch_add(1, Ordering::SeqCst);
        if let Some(old) = waiters.insert(request.owner, waiting) {
            self.count(old.bucket).fetch_sub(1, Ordering::SeqCst);
        }
        drop(waiters);
        (number, signals)
    }

    pub(crate) fn remove(&self, owner: OwnerId, number: u64) {
        let mut waiters = self.waiters();
        if let Entry::Occupied(waiter) = waiters.entry(owner)
            && waiter.get().number == number
        {
            self.count(waiter.remove().bucket).fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Whether this owner waits.
    pub(crate) fn has(&self, owner: OwnerId) -> bool {
        self.waiters().contains_key(&owner)
    }

    /// Records when the next heartbeat of an entry is due, as the server answered.
    pub(crate) fn note_retry(&self, owner: OwnerId, retry_after: Duration) {
        if let Some(waiter) = self.waiters().get_mut(&owner) {
            waiter.far = retry_after >= FAR_HEARTBEAT;
        }
    }

    /// Records that others hold the lock, as an attempt or heartbeat sent at `sent` has found.
    pub(crate) fn note_busy(&self, owner: OwnerId, busy: &Busy, sent: Instant) {
        let left = busy.holder.as_ref().map_or(Duration::ZERO, |holder| holder.remaining);
        let sure = left.saturating_sub(FAR_HEARTBEAT).min(LOCK_READ_AGAIN);
        if let Some(waiter) = self.waiters().get_mut(&owner) {
            waiter.last_read = Some((busy.clone(), sent, sent + sure));
        }
    }

    /// What is known of a lock that does not end before the next heartbeat. `None` if the client
    /// has to read it again. While the entry exists, the lock was not handed to it.
    pub(crate) fn known(&self, owner: OwnerId, now: Instant) -> Option<Busy> {
        let waiters = self.waiters();
        let (busy, from, until) = waiters.get(&owner)?.last_read.as_ref()?;
        let mut busy = (now < *until).then(|| busy.clone())?;
        if let Some(holder) = &mut busy.holder {
            holder.remaining = holder.remaining.saturating_sub(now.since(*from));
        }
        Some(busy)
    }

    /// When the next heartbeat of an entry is due: at a time that it shares with this client's
    /// other entries, so that their heartbeats go in one call.
    pub(crate) fn until_heartbeat(&self, owner: OwnerId, now: Instant) -> Duration {
        let far = self.waiters().get(&owner).is_some_and(|waiter| waiter.far);
        let latest = now + if far { FAR_HEARTBEAT } else { NEAR_HEARTBEAT };
        let beyond =
            latest.since(Instant::default() + self.phase).as_nanos() % HEARTBEAT_STEP.as_nanos();
        (latest - Duration::from_nanos(beyond as u64)).since(now)
    }

    fn count(&self, bucket: Bucket) -> &AtomicUsize {
        &self.waiting[bucket.index()]
    }

    /// The server has passed over this owner's entry.
    pub(crate) fn lost(&self, owner: OwnerId) {
        let mut waiters = self.waiters();
        if let Some(waiter) = waiters.remove(&owner) {
            self.count(waiter.bucket).fetch_sub(1, Ordering::SeqCst);
            // A waiter that is gone needs no message.
            waiter.wake.send(Signal::Lost("the server passed over the queue entry".into())).ok();
        }
    }
}

impl PushListener for Pushes {
    fn channel(&self, bucket: Bucket) -> &str {
        &self.channels[bucket.index()]
    }

    fn listens(&self, bucket: Bucket) -> bool {
        self.count(bucket).load(Ordering::SeqCst) > 0
    }

    /// A message is `owner token claim-ms`. Only our scripts write to this channel. If a message is
    /// not understood, the cost is one poll.
    fn on_message(&self, _: &[u8], message: &[u8]) {
        if let Some((owner, token, claim)) = parse(message)
            && let Some(waiter) = self.waiters().get(&owner)
        {
            let signal = if self.only_rechecks {
                Signal::Recheck
            } else {
                let request = &waiter.request;
                let grant = Grant::new(request, token).with_mode(request.mode);
                Signal::Granted(grant.pushed(claim))
            };
            waiter.wake.send(signal).ok();
        }
    }

    fn missed(&self) {
        for waiting in self.waiters().values() {
            waiting.wake.send(Signal::Recheck).ok();
        }
    }
}

pub(crate) fn parse(payload: &[u8]) -> Option<(OwnerId, FencingToken, Duration)> {
    let mut parts = std::str::from_utf8(payload).ok()?.split(' ');
    let owner = OwnerId::from_str(parts.next()?).ok()?;
    let token = FencingToken::new(parts.next()?.parse().ok()?)?;
    Some((owner, token, Duration::from_millis(parts.next()?.parse().ok()?)))
}
