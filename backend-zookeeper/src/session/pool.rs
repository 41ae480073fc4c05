//! The sessions of a client, by the lease of their locks.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use lock_core::{Env as _, Error, ErrorKind, Mutex, SystemEnv};

use super::{clock::StoreClock, connect::Connect, session::Session};
use crate::{
    keys::layout::Layout,
    tunables::{MOST_SESSIONS, SESSION_PART, SHORTEST_TICKS},
};

/// What ClickHouse Keeper has, and ZooKeeper does not.
const CLICKHOUSE: &str = "/keeper/api_version";

/// The sessions of a client.
#[derive(Debug)]
pub(crate) struct Sessions {
    connect: Connect,
    layout: Layout,
    pub(crate) clock: Arc<StoreClock>,
    /// By lease. `None` once the client is closed.
    open: Mutex<Option<BTreeMap<Duration, Arc<Session>>>>,
    opening: tokio::sync::Mutex<()>,
}

fn closed() -> Error {
    Error::new(ErrorKind::Config, "the client is closed")
}

/// How long ZooKeeper must keep a session for locks of this lease.
fn length(lease: Duration) -> Duration {
    in_millis(lease + lease / SESSION_PART)
}

/// ZooKeeper counts milliseconds.
fn in_millis(span: Duration) -> Duration {
    Duration::from_millis(span.as_nanos().div_ceil(1_000_000) as u64)
}

/// The longest lease of a session of this length.
fn lease_of(length: Duration) -> Duration {
    length * SESSION_PART / (SESSION_PART + 1)
}

impl Sessions {
    pub(crate) fn new(connect: Connect, layout: Layout) -> Self {
        let (clock, opening) = Default::default();
        Self { connect, layout, clock, open: Mutex::new(Some(BTreeMap::new())), opening }
    }

    /// The shortest lease.
    pub(crate) fn shortest(&self) -> Duration {
        self.connect.tick * SHORTEST_TICKS
    }

    pub(crate) fn tick(&self) -> Duration {
        self.connect.tick
    }

    /// The session for this lease.
    pub(crate) async fn for_lease(
        self: &Arc<Self>,
        lease: Duration,
    ) -> Result<Arc<Session>, Error> {
        let lease = in_millis(lease);
        if let Some(session) = self.living(lease)? {
            return Ok(session);
        }
        let sessions = Arc::clone(self);
        // A caller whose future nobody polls would keep all others from opening one. The provider
        // of the credentials is asked on the runtime of the caller.
        let opened = tokio::spawn(async move { sessions.open_one(lease).await }).await;
        opened.unwrap_or_else(|error| {
            let message = "the runtime has ended, or a task has panicked";
            Err(Error::new(ErrorKind::Unavailable, message).with_source(error))
        })
    }

    /// Opens a session, if nobody has done so meanwhile.
    async fn open_one(&self, lease: Duration) -> Result<Arc<Session>, Error> {
        let _one = self.opening.lock().await;
        if let Some(session) = self.living(lease)? {
            return Ok(session);
        }
        self.check_count(lease)?;
        let opened = SystemEnv.now();
        let client = self.connect.open(length(lease)).await?;
        if client.session_timeout() != length(lease) {
            return Err(self.out_of_range(lease, client.session_timeout()));
        }
        let Self { connect, layout, clock, .. } = self;
        let session = Session::start(client, lease, opened, connect, layout, clock).await?;
        if session.read_one(CLICKHOUSE).await?.is_some() {
            session.close().await;
            let message = "this is ClickHouse Keeper: it replaces a lost session without a word, so two clients could \
                           hold one lock; use ZooKeeper";
            return Err(Error::new(ErrorKind::Config, message));
        }
        let inserted =
            self.open.lock().as_mut().map(|open| open.insert(lease, Arc::clone(&session)));
        if inserted.is_none() {
            session.close().await;
            return Err(closed());
        }
        Ok(session)
    }

    /// The session of this lease, if it lives.
    pub(crate) fn living(&self, lease: Duration) -> Result<Option<Arc<Session>>, Error> {
        let open = self.open.lock();
        let open = open.as_ref().ok_or_else(closed)?;
        Ok(open.get(&in_millis(lease)).filter(|session| session.is_alive()).cloned())
    }

    /// Any session, to read with, and to write what does not live by a session.
    pub(crate) async fn any(self: &Arc<Self>, otherwise: Duration) -> Result<Arc<Session>, Error> {
        let open = self.open.lock().clone().ok_or_else(closed)?;
        match open.into_values().rev().find(|session| session.is_alive()) {
            Some(session) => Ok(session),
            None => self.for_lease(otherwise).await,
        }
    }

    /// Refuses one lease more than a client may use.
    fn check_count(&self, lease: Duration) -> Result<(), Error> {
        let mut open = self.open.lock();
        let open = open.as_mut().ok_or_else(closed)?;
        open.retain(|_, session| session.is_alive());
        if open.len() < MOST_SESSIONS {
            return Ok(());
        }
        let shown = humantime::format_duration(lease);
        let message = format!(
            "lease {shown} is one too many: a client may use at most {} different leases besides the longest, because \
             each has a connection as long as the client lives",
            MOST_SESSIONS - 1
        );
        Err(Error::new(ErrorKind::InvalidInput, message))
    }

    fn out_of_range(&self, lease: Duration, given: Duration) -> Error {
        let show = humantime::format_duration;
        let (asked, limit) = (length(lease), lease_of(given));
        let side = if given < asked { "most" } else { "least" };
        let message = format!(
            "lease {} needs a session of {}, and ZooKeeper gives {}; the lease must be at {side} {}, or change \
             minSessionTimeout and maxSessionTimeout of the servers",
            show(lease),
            show(asked),
            show(given),
            show(limit)
        );
        Error::new(ErrorKind::InvalidInput, message)
    }

    /// All sessions. No new ones are opened.
    pub(crate) fn close(&self) -> Vec<Arc<Session>> {
        self.open.lock().take().into_iter().flat_map(BTreeMap::into_values).collect()
    }
}
