//! L4: the requests for a handoff do not grow with the number of waiters.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::select_all};
use lock_core::{
    Attempt, Backend, Busy, Env as _, Grant, ReleaseOptions, Request, Signal, SystemEnv, Waiter,
};
use tokio::time::{Instant, sleep_until};

use super::{cases, fair, pushes};
use crate::setting::{Setting, attempt, confirmed, enqueued, granted, refused};

cases! {
    "L4" a_release_does_not_wake_every_waiter pushes;
    "L4" a_waiter_further_back_polls_less_often fair;
}

const WAITERS: usize = 12;
/// A release that wakes every waiter causes far more signals than this many releases need, even if
/// each waiter also gets a signal because its subscription begins.
const HANDOFFS: usize = 8;

/// Each waiter that is woken sends a request. So a release must wake few of them, also if all use
/// one connection.
async fn a_release_does_not_wake_every_waiter(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    let name = setting.name("job");
    let held = granted(&*one, &setting.request(&name)).await;
    let mut queue = Queue { backend: Arc::clone(&other), entries: Vec::new(), woken: 0 };
    for _ in 0..WAITERS {
        let request = setting.request(&name);
        let (waiter, busy) = enqueued(&*other, &request).await;
        queue.entries.push(QueueEntry::new(request, waiter, busy));
    }
    queue.take_signals();
    queue.woken = 0;
    one.release(&held, ReleaseOptions::default()).await.unwrap();
    let mut every_waiter = 0;
    for handoff in 1..=HANDOFFS {
        let grant = queue.serve().await;
        // Signals of this release that come later are counted with the next one.
        queue.take_signals();
        every_waiter += queue.entries.len();
        if handoff < HANDOFFS {
            other.release(&grant, ReleaseOptions::default()).await.unwrap();
        }
    }
    for entry in queue.entries {
        entry.waiter.leave().await.unwrap();
    }
    assert!(
        queue.woken < every_waiter / 2,
        "{HANDOFFS} releases woke {} times a waiter that they did not serve; if each wakes every \
         waiter, that is {every_waiter} times",
        queue.woken
    );
}

/// Waiters of one client, which wait as the core does, by signal and by polling.
struct Queue {
    backend: Arc<dyn Backend>,
    entries: Vec<QueueEntry>,
    /// How often a waiter got a signal that did not serve it. Polls do not count.
    woken: usize,
}

struct QueueEntry {
    request: Request,
    waiter: Box<dyn Waiter>,
    busy: Busy,
    poll: Instant,
}

impl QueueEntry {
    fn new(request: Request, waiter: Box<dyn Waiter>, busy: Busy) -> Self {
        let poll = Instant::now() + busy.retry_after;
        Self { request, waiter, busy, poll }
    }
}

impl Queue {
    /// Waits until a waiter is served, which leaves the queue.
    async fn serve(&mut self) -> Grant {
        loop {
            let first = (0..self.entries.len()).min_by_key(|index| self.entries[*index].poll);
            let first = first.expect("a waiter is left");
            let poll = self.entries[first].poll;
            let signals = select_all(self.entries.iter_mut().map(|entry| entry.waiter.next()));
            let (index, signal) = tokio::select! {
                (signal, index, _) = signals => (index, Some(signal)),
                () = sleep_until(poll) => (first, None),
            };
            let is_signal = signal.is_some();
            if let Some(grant) = self.answer(index, signal).await {
                self.entries.remove(index);
                return grant;
            }
            self.woken += usize::from(is_signal);
        }
    }

    /// The grant to this waiter, if it has the lock now.
    async fn answer(&mut self, index: usize, signal: Option<Signal>) -> Option<Grant> {
        let entry = &mut self.entries[index];
        match signal {
            Some(Signal::Granted(grant)) if grant.token > entry.busy.token => {
                return Some(confirmed(&*self.backend, grant).await);
            }
            Some(Signal::Lost(why)) => panic!("the store lost a queue entry: {why}"),
            _ => {}
        }
        entry.request.sent = SystemEnv.now();
        match attempt(&*self.backend, &entry.request).await {
            Attempt::Granted(grant) => return Some(grant),
            Attempt::Busy(busy) => entry.busy = busy,
            Attempt::Quarantined(quarantined) => panic!("{quarantined:?}"),
        }
        entry.poll = Instant::now() + entry.busy.retry_after;
        None
    }

    /// Counts the signals that have come. Their waiters poll next.
    fn take_signals(&mut self) {
        for entry in &mut self.entries {
            match entry.waiter.next().now_or_never() {
                Some(Signal::Lost(why)) => panic!("the store lost a queue entry: {why}"),
                Some(_) => (self.woken, entry.poll) = (self.woken + 1, Instant::now()),
                None => {}
            }
        }
    }
}

/// A waiter polls at the rate that the store tells it. This is the traffic besides handoffs.
async fn a_waiter_further_back_polls_less_often(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    let name = setting.name("job");
    let held = granted(&*one, &setting.request(&name)).await;
    let (mut requests, mut entries) = (Vec::new(), Vec::new());
    for _ in 0..WAITERS {
        let request = setting.request(&name);
        entries.push(enqueued(&*other, &request).await.0);
        requests.push(request);
    }
    let mut pauses = Vec::new();
    for mut again in requests {
        again.sent = SystemEnv.now();
        pauses.push(refused(&*other, &again).await.retry_after);
    }
    // A store may let the waiters of a client poll together, each a little earlier.
    let slower = pauses.windows(2).all(|pair| pair[1] >= pair[0] * 2 / 3);
    assert!(slower, "a waiter polls more often than the one before it: {pauses:?}");
    let (first, last) = (pauses[0], pauses[WAITERS - 1]);
    assert!(last >= first * 5 / 4, "the last of {WAITERS} polls as often as the first: {pauses:?}");
    let longest = setting.promised().longest_poll;
    assert!(last <= longest, "polls are longer apart than `longest_poll`, {longest:?}: {pauses:?}");
    // A lease that is nearly over would make polls shorter and hide the rate.
    assert!(first >= setting.lease().min(Duration::from_millis(100)), "too short: {pauses:?}");
    for entry in entries {
        entry.leave().await.unwrap();
    }
    one.release(&held, ReleaseOptions::default()).await.unwrap();
}
