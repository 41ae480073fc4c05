//! One session.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use lock_core::{Env as _, Error, ErrorKind, Instant, Mutex, RwLock, SystemEnv, drift_margin};
use tokio::{sync::Notify, time::timeout};
use zookeeper_client::{Client, CreateMode, SessionId, Stat};

use super::{
    clock::StoreClock,
    connect::{Access, Connect},
    keeper,
    own::{Chain, OwnNode, epoch_of},
    requests::WriteResult,
    runtime::in_background,
    touches::Touches,
};
use crate::{
    keys::layout::Layout,
    tunables::{KNOWN_AFTER_HALF_TICKS, LATE_PART, REMEMBERED_PART, TOUCH_PART},
};

/// A session, by which all locks of one lease length live.
#[derive(Debug)]
pub(crate) struct Session {
    /// `None` once it is closed. The session ends with the last clone.
    client: RwLock<Option<Client>>,
    id: SessionId,
    /// The lease of its locks.
    pub(crate) lease: Duration,
    /// How much longer than the lease ZooKeeper keeps the session, less the margin for clocks.
    beyond_lease: Duration,
    /// How long a call may take.
    pub(super) limit: Duration,
    pub(super) access: Access,
    pub(crate) clock: Arc<StoreClock>,
    touches: Mutex<Touches>,
    /// Its own node, which it writes to stay alive. Only tasks of our own runtime lock it.
    pub(super) own: tokio::sync::Mutex<OwnNode>,
    pub(super) chain: Mutex<Chain>,
    /// The epoch of the last answered write that counts for its validity.
    seen_epoch: AtomicI64,
    pub(super) ends: Mutex<HashMap<String, End>>,
    /// Rings when `ends` has an earlier end.
    pub(super) earlier: Arc<Notify>,
}

/// When the client removes one of its nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) at: Instant,
    pub(super) what: Ending,
}

/// What is removed at an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The entry of a holder.
    Held,
    /// An entry that waits, or another node of the session.
    Other,
    /// A node that nobody uses any more. The keeper may be removing it already.
    Unused,
    /// A node without a session, if its data have this version.
    Kept(i32),
    /// Entries with names that begin so: the answer that names them was lost, or comes later.
    Unnamed,
}

impl Session {
    /// Makes the node of a session that was just opened, and starts its keeper.
    pub(super) async fn start(
        client: Client,
        lease: Duration,
        opened: Instant,
        connect: &Connect,
        layout: &Layout,
        clock: &Arc<StoreClock>,
    ) -> Result<Arc<Self>, Error> {
        let after = connect.tick * KNOWN_AFTER_HALF_TICKS / 2;
        let beyond = client.session_timeout().saturating_sub(lease);
        let mut session = Self {
            id: client.session_id(),
            beyond_lease: beyond.saturating_sub(drift_margin(beyond)),
            client: RwLock::new(Some(client)),
            lease,
            limit: connect.timeout,
            access: connect.access,
            clock: Arc::clone(clock),
            touches: Mutex::new(Touches::new(opened, after, lease / REMEMBERED_PART)),
            own: tokio::sync::Mutex::new(OwnNode::new(String::new())),
            chain: Mutex::new(Chain::new(opened, 0)),
            seen_epoch: AtomicI64::default(),
            ends: Mutex::default(),
            earlier: Arc::default(),
        };
        let (sent, mode) = (SystemEnv.now(), CreateMode::EphemeralSequential);
        let made = session.make(&layout.session(), &[], mode).await?;
        let Some(WriteResult::Node(node, Some(stat))) = made else {
            return Err(Error::new(ErrorKind::Unavailable, "no node was made"));
        };
        session.own = tokio::sync::Mutex::new(OwnNode::new(node));
        session.chain = Mutex::new(Chain::new(sent, epoch_of(stat.czxid)));
        let session = Arc::new(session);
        keeper::start(&session)?;
        Ok(session)
    }

    pub(super) fn client(&self) -> Result<Client, Error> {
        let client = self.client.read().clone();
        client.ok_or_else(|| Error::new(ErrorKind::Unavailable, "the client is closed"))
    }

    pub(crate) fn id(&self) -> i64 {
        self.id.0
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.client.read().as_ref().is_some_and(|client| !client.state().is_terminated())
    }

    /// Records an answered write. It sets the epoch first: a caller that counts a validity from
    /// this write must see its epoch, too.
    pub(crate) fn wrote(&self, sent: Instant, stat: &Stat) {
        self.seen_epoch.fetch_max(epoch_of(stat.mzxid), Ordering::AcqRel);
        self.touches.lock().wrote(sent, SystemEnv.now());
        self.clock.observe(stat, sent);
    }

    pub(crate) fn seen_epoch(&self) -> i64 {
        self.seen_epoch.load(Ordering::Acquire)
    }

    /// The instant from which a grant or a renewal that was sent at `sent` counts.
    pub(crate) fn counts_from(&self, sent: Instant) -> Instant {
        // guard: counts-from | S3 | ensemble::a_write_and_then_a_cut_leave_no_second_holder |
        //   self.beyond_lease => 100 * self.lease
        // guard: reads/count | S3 |
        //   ensemble::a_holder_behind_a_follower_that_is_cut_off_is_no_second_holder |
        //   self.beyond_lease => 100 * self.lease
        sent.min(self.touches.lock().confirmed + self.beyond_lease)
    }

    /// When the last answered write of its own node was sent.
    pub(crate) fn written(&self) -> Instant {
        self.chain.lock().written
    }

    /// When the next write of its own node is due. No other write can replace it: only this one
    /// shows that nothing was lost.
    pub(super) fn due(&self) -> Instant {
        // guard: reads/suffice | S3 |
        //   ensemble::a_holder_behind_a_follower_that_is_cut_off_is_no_second_holder |
        //   self.lease / TOUCH_PART => 100 * self.lease
        self.written() + self.lease / TOUCH_PART
    }

    /// Writes, if the validity of a renewal at `sent` would end early otherwise.
    pub(crate) async fn renew(self: &Arc<Self>, sent: Instant) -> Result<(), Error> {
        match sent.since(self.counts_from(sent)) > self.lease / LATE_PART {
            true => self.touch().await,
            false => Ok(()),
        }
    }

    /// Removes a node at this time, unless it is extended or forgotten before.
    pub(crate) fn end_at(&self, path: &str, at: Instant, what: Ending) {
        self.ends.lock().insert(path.to_owned(), End { at, what });
        self.earlier.notify_one();
    }

    /// Before an entry is made: removes what was made after a lease, if no answer names it. The
    /// keeper need not be told, since it wakes in each third of the lease. Returns whether that of
    /// an earlier try is expected.
    pub(crate) fn expect(&self, stem: &str) -> bool {
        // guard: unnamed-entry | S6 |
        //   faults::an_entry_that_no_answer_has_named_ends_with_its_lease |
        //   self.lease => 100 * self.lease
        let end = End { at: SystemEnv.now() + self.lease, what: Ending::Unnamed };
        self.ends.lock().insert(stem.to_owned(), end).is_some()
    }

    /// After that: the answer has named the entry. The keeper still looks for that of an earlier
    /// try.
    pub(crate) fn learn_name(&self, stem: &str, path: &str, was_expected: bool) {
        let end = End { at: SystemEnv.now() + self.lease, what: Ending::Other };
        let mut ends = self.ends.lock();
        if !was_expected {
            ends.remove(stem);
        }
        // The keeper may be removing the entry already.
        ends.entry(path.to_owned()).or_insert(end);
    }

    /// The keeper removes these entries, unless it knows them already, or an attempt that began
    /// after `now` may have made them.
    pub(super) fn end_unnamed(
        &self,
        stem: &str,
        paths: impl Iterator<Item = String>,
        now: Instant,
    ) {
        let mut ends = self.ends.lock();
        if ends.get(stem).is_some_and(|end| end.at <= now) {
            for path in paths {
                ends.entry(path).or_insert(End { at: now, what: Ending::Unused });
            }
        }
    }

    /// Before an entry is used until then. `false` if the keeper may be removing it.
    pub(crate) fn take(&self, path: &str, until: Instant) -> bool {
        let end = End { at: until, what: Ending::Other };
        let mut ends = self.ends.lock();
        let taken = ends.entry(path.to_owned()).or_insert(end);
        if taken.what == Ending::Unused {
            return false;
        }
        taken.at = taken.at.max(end.at);
        true
    }

    /// An entry becomes that of a holder. `false` if it may be gone: the keeper removes it, or the
    /// session was given up.
    pub(crate) fn hold(&self, path: &str) -> bool {
        // guard: held-until | S3 | faults::a_pause_of_the_server_gives_no_second_holder |
        //   self.lease => self.lease / 100
        let end = End { at: SystemEnv.now() + self.lease, what: Ending::Held };
        {
            let mut ends = self.ends.lock();
            let held = ends.entry(path.to_owned()).or_insert(end);
            if held.what == Ending::Unused {
                return false;
            }
            *held = end;
        }
        self.earlier.notify_one();
        self.is_alive()
    }

    /// Whether this is the entry of a holder.
    pub(crate) fn holds(&self, path: &str) -> bool {
        self.ends.lock().get(path).is_some_and(|end| end.what == Ending::Held)
    }

    /// Moves the end of the entry of a holder. `false` if it is over.
    pub(crate) fn extend(&self, path: &str, at: Instant) -> bool {
        let mut ends = self.ends.lock();
        let end = ends.get_mut(path).filter(|end| end.what == Ending::Held);
        let Some(end) = end else { return false };
        end.at = end.at.max(at);
        true
    }

    /// Ends an entry whose waiter is gone, unless it holds the lock.
    pub(crate) fn end_waiting(&self, path: &str) {
        let mut ends = self.ends.lock();
        if let Some(end) = ends.get_mut(path).filter(|end| end.what == Ending::Other) {
            end.at = SystemEnv.now() + self.lease;
        }
        drop(ends);
        self.earlier.notify_one();
    }

    pub(crate) fn forget(&self, path: &str) {
        self.ends.lock().remove(path);
    }

    /// Nothing more is asked, since the servers have gone back. ZooKeeper keeps the session until
    /// the last of its guards ends: they do not know yet that their locks may be lost.
    pub(super) fn give_up(&self) {
        let client = self.client.write().take();
        // Whoever extends an end, or adds one, looks whether the session is alive after that.
        let ends = self.ends.lock();
        let last = ends.values().filter(|end| end.what == Ending::Held).map(|end| end.at).max();
        drop(ends);
        if let (Some(client), Some(last)) = (client, last) {
            in_background(async move {
                SystemEnv.sleep_until(last).await;
                drop(client);
            });
        }
    }

    /// Ends the session, and waits until ZooKeeper has confirmed it.
    pub(crate) async fn close(&self) {
        let Some(client) = self.client.write().take() else { return };
        let mut state = client.state_watcher();
        drop(client);
        let ended = async {
            let mut now = state.peek_state();
            while !now.is_terminated() {
                now = state.changed().await;
            }
        };
        if timeout(self.limit, ended).await.is_err() {
            tracing::trace!(target: "leasehold", "a session of ZooKeeper ends by itself");
        }
    }
}
