//! One session.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicI64},
    time::Duration,
};

use lock_core::{Env as _, Error, ErrorKind, Instant, Mutex, RwLock, SystemEnv};
use tokio::{sync::Notify, time::timeout};
use zookeeper_client::{Acls, Client, CreateMode, SessionId, Stat};

use super::{
    clock::StoreClock,
    connect::Access,
    keeper,
    known::Known,
    own::{OwnNode, epoch_of},
    requests::{Made, Write},
};
use crate::{
    keys::layout::{Layout, parent},
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
    /// By how much longer ZooKeeper keeps the session.
    longer: Duration,
    limit: Duration,
    access: Access,
    pub(super) clock: Arc<StoreClock>,
    known: Mutex<Known>,
    /// Its own node, which it writes to stay alive.
    pub(super) own: tokio::sync::Mutex<OwnNode>,
    pub(super) epoch: AtomicI64,
    pub(super) unbroken_since: AtomicI64,
    pub(super) ends: Mutex<HashMap<String, End>>,
    /// Rings when `ends` has an earlier end.
    pub(super) earlier: Arc<Notify>,
}

/// When the client removes one of its nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) at: Instant,
    /// Whether it is the entry of a holder.
    pub(crate) is_held: bool,
}

/// What a session is made of.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) client: Client,
    pub(super) lease: Duration,
    pub(super) opened: Instant,
    pub(super) tick: Duration,
    pub(super) limit: Duration,
    pub(super) access: Access,
    pub(super) clock: Arc<StoreClock>,
}

impl Session {
    /// Makes the node of a session that was just opened, and starts its keeper.
    pub(super) async fn start(parts: Parts, layout: &Layout) -> Result<Arc<Self>, Error> {
        let Parts { client, lease, opened, tick, limit, access, clock } = parts;
        let after = tick * KNOWN_AFTER_HALF_TICKS / 2;
        let mut session = Self {
            id: client.session_id(),
            longer: client.session_timeout().saturating_sub(lease),
            client: RwLock::new(Some(client)),
            lease,
            limit,
            access,
            clock,
            known: Mutex::new(Known::new(opened, after, lease / REMEMBERED_PART)),
            own: tokio::sync::Mutex::new(OwnNode::new(String::new(), opened)),
            epoch: AtomicI64::default(),
            unbroken_since: AtomicI64::default(),
            ends: Mutex::default(),
            earlier: Arc::default(),
        };
        let sent = SystemEnv.now();
        let (node, epoch) = session.make_node(&layout.session()).await?;
        session.own = tokio::sync::Mutex::new(OwnNode::new(node, sent));
        (session.epoch, session.unbroken_since) = (epoch.into(), epoch.into());
        let session = Arc::new(session);
        keeper::start(&session)?;
        Ok(session)
    }

    /// The node, and the epoch in which it was made.
    async fn make_node(&self, stem: &str) -> Result<(String, i64), Error> {
        loop {
            match self.write(&[Write::Create(stem, &[], CreateMode::EphemeralSequential)]).await {
                Ok(made) => match made.into_iter().next() {
                    Some(Made::Node(path, Some(stat))) => return Ok((path, epoch_of(stat.czxid))),
                    _ => return Err(Error::new(ErrorKind::Unavailable, "no node was made")),
                },
                Err(failure) if failure.is_no_node() => self.make(parent(stem), &[]).await?,
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    pub(super) fn client(&self) -> Result<Client, Error> {
        let client = self.client.read().clone();
        client.ok_or_else(|| Error::new(ErrorKind::Unavailable, "the client is closed"))
    }

    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    pub(super) fn acls(&self) -> Acls<'static> {
        self.access.acls()
    }

    pub(crate) fn id(&self) -> i64 {
        self.id.0
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.client.read().as_ref().is_some_and(|client| !client.state().is_terminated())
    }

    /// Records an answered write, and the leader's time in its answer.
    pub(super) fn wrote(&self, sent: Instant, stat: Option<&Stat>) {
        self.known.lock().wrote(sent, SystemEnv.now());
        if let Some(stat) = stat {
            self.clock.note(stat, sent);
        }
    }

    /// When the last answered write was sent.
    pub(super) fn written(&self) -> Instant {
        self.known.lock().written()
    }

    /// The instant from which a grant or a renewal that was sent at `sent` counts.
    pub(crate) fn counts_from(&self, sent: Instant) -> Instant {
        sent.min(self.known.lock().confirmed() + self.longer)
    }

    /// When the next write is due, if nothing else is written.
    pub(super) fn due(&self) -> Instant {
        self.written() + self.lease / TOUCH_PART
    }

    /// Writes, if the validity of a renewal at `sent` would end early otherwise.
    pub(crate) async fn renew(&self, sent: Instant) -> Result<(), Error> {
        match sent.since(self.counts_from(sent)) > self.lease / LATE_PART {
            true => self.touch().await,
            false => Ok(()),
        }
    }

    /// Removes a node at this time, unless it is extended or forgotten before.
    pub(crate) fn end_at(&self, path: &str, at: Instant, is_held: bool) {
        self.ends.lock().insert(path.to_owned(), End { at, is_held });
        self.earlier.notify_one();
    }

    /// Moves the end of an entry. `false` if it is over.
    pub(crate) fn extend(&self, path: &str, at: Instant) -> bool {
        let mut ends = self.ends.lock();
        let Some(end) = ends.get_mut(path) else { return false };
        end.at = end.at.max(at);
        true
    }

    pub(crate) fn is_registered(&self, path: &str) -> bool {
        self.ends.lock().contains_key(path)
    }

    pub(crate) fn forget(&self, path: &str) {
        self.ends.lock().remove(path);
    }

    /// Whether no entry lives by it.
    pub(super) fn is_idle(&self) -> bool {
        self.ends.lock().is_empty()
    }

    /// The held entries, with their ends.
    pub(crate) fn held(&self) -> Vec<(String, Instant)> {
        let ends = self.ends.lock();
        let held = ends.iter().filter(|(_, end)| end.is_held);
        held.map(|(path, end)| (path.clone(), end.at)).collect()
    }

    /// Ends the session, without waiting for ZooKeeper.
    pub(super) fn end(&self) {
        drop(self.client.write().take());
    }

    /// Ends the session, and waits until ZooKeeper has confirmed it.
    pub(crate) async fn close(&self) {
        let Some(client) = self.client.write().take() else { return };
        let mut state = client.state_watcher();
        drop(client);
        let ended = async { while !state.changed().await.is_terminated() {} };
        if timeout(self.limit, ended).await.is_err() {
            tracing::trace!(target: "leasehold", "a session of ZooKeeper ends by itself");
        }
    }
}
