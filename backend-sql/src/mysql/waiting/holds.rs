//! The locks that this client holds, as far as their bells need it.
//!
//! A holder that has taken a free lock has no bell at first. It looks once for waiters when it has
//! held the lock for a while, and then with each renewal.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use lock_core::{Error, LockName, Mode, Mutex, OwnerId, Request};
use sqlx::mysql::MySqlRow;
use tokio::{task::AbortHandle, time::sleep};

use super::Bells;
use crate::{
    error::column,
    gate,
    mysql::{
        connection::server::Server,
        rows::batch,
        statements::{Argument::Text, Statements},
    },
    tunables::mysql::LOOK_AFTER,
    waiting::QueueEntries,
};

#[derive(Debug)]
pub(in crate::mysql) struct Holds {
    server: Arc<Server>,
    sql: Arc<Statements>,
    entries: Arc<QueueEntries>,
    pub(in crate::mysql) bells: Arc<Bells>,
    /// Locks that were taken without a bell. Nobody has looked for waiters yet.
    fresh: Mutex<HashMap<OwnerId, Fresh>>,
    task: Mutex<Option<AbortHandle>>,
    looks: Mutex<Looks>,
}

/// The looks for waiters that are under way.
#[derive(Debug, Default)]
struct Looks {
    count: usize,
    /// Owners that have released their locks meanwhile: their bells are not hung again.
    ended: HashSet<OwnerId>,
}

/// One of them.
struct Look<'a>(&'a Mutex<Looks>);

impl<'a> Look<'a> {
    fn begin(looks: &'a Mutex<Looks>) -> Self {
        looks.lock().count += 1;
        Self(looks)
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        let mut looks = self.0.lock();
        looks.count -= 1;
        if looks.count == 0 {
            looks.ended.clear();
        }
    }
}

#[derive(Debug)]
struct Fresh {
    name: LockName,
    lease: Duration,
    since: Instant,
}

impl Drop for Holds {
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
    }
}

impl Holds {
    pub(in crate::mysql) fn new(
        server: &Arc<Server>,
        sql: &Arc<Statements>,
        entries: &Arc<QueueEntries>,
    ) -> Arc<Self> {
        let bells = Arc::new(Bells::new(server, sql));
        let (server, sql, entries) = (Arc::clone(server), Arc::clone(sql), Arc::clone(entries));
        let (fresh, task, looks) = (Mutex::default(), Mutex::default(), Mutex::default());
        Arc::new(Self { server, sql, entries, bells, fresh, task, looks })
    }

    /// A request has taken the lock.
    pub(in crate::mysql) fn begin(self: &Arc<Self>, request: &Request) {
        let (owner, lease) = (request.owner, request.lease);
        if request.mode == Mode::Shared || !self.bells.work() {
            return;
        }
        if self.bells.keep(owner, 2 * lease) {
            return;
        }
        let name = request.name.clone();
        self.fresh.lock().insert(owner, Fresh { name, lease, since: Instant::now() });
        let mut task = self.task.lock();
        if task.as_ref().is_none_or(AbortHandle::is_finished) {
            *task = Some(tokio::spawn(look_at_fresh(Arc::downgrade(self))).abort_handle());
        }
    }

    /// An owner has left the lock, or the queue.
    pub(in crate::mysql) fn end(&self, owner: OwnerId) {
        self.fresh.lock().remove(&owner);
        let mut looks = self.looks.lock();
        if looks.count > 0 {
            looks.ended.insert(owner);
        }
        self.bells.ring(owner);
    }

    /// Reads the store's settings and, in the same statement, for which of these locks somebody
    /// waits. Hangs their bells.
    pub(in crate::mysql) async fn look<'a>(
        &self,
        holds: impl Iterator<Item = (OwnerId, &'a LockName, Duration)> + Clone,
    ) -> Result<Vec<MySqlRow>, Error> {
        let work = self.bells.work();
        let _look = Look::begin(&self.looks);
        let asked = holds.clone().filter(|_| work).map(|(owner, name, lease)| {
            self.bells.keep(owner, 2 * lease);
            (name, Some((owner, lease)))
        });
        let rows = self.server.rows(&self.sql.waited_for, &[Text(&batch(asked))]).await?;
        for row in &rows {
            let waited: Option<Vec<u8>> = column(row, 2)?;
            let waited = waited.and_then(|owner| String::from_utf8_lossy(&owner).parse().ok());
            let waited =
                waited.and_then(|waited| holds.clone().find(|(owner, ..)| *owner == waited));
            if let Some((owner, name, lease)) = waited {
                self.entries.note_waiters(name);
                let looks = self.looks.lock();
                if !looks.ended.contains(&owner) {
                    self.bells.hang(owner, 2 * lease);
                }
            }
        }
        Ok(rows)
    }

    /// The fresh locks that are old enough to look at. If there are no fresh ones at all, the task
    /// counts as ended: the next lock starts another.
    fn due(&self) -> Option<HashMap<OwnerId, Fresh>> {
        let mut task = self.task.lock();
        let mut fresh = self.fresh.lock();
        if fresh.is_empty() {
            *task = None;
            return None;
        }
        Some(fresh.extract_if(|_, it| it.since.elapsed() >= LOOK_AFTER).collect())
    }
}

async fn look_at_fresh(holds: Weak<Holds>) {
    loop {
        sleep(LOOK_AFTER).await;
        let Some(holds) = holds.upgrade() else { return };
        let _look = Look::begin(&holds.looks);
        let Some(due) = holds.due() else { return };
        if due.is_empty() {
            continue;
        }
        let looked = async {
            let _pass = gate::attempt(Some(&holds.server.gate)).await?;
            holds.look(due.iter().map(|(owner, it)| (*owner, &it.name, it.lease))).await
        };
        if let Err(error) = looked.await {
            tracing::trace!(target: "leasehold", %error, "nobody has looked for waiters; the next renewal does");
        }
    }
}
