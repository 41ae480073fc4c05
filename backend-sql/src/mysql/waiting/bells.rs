//! The bells of this client.
//!
//! A bell is a lock of the server (`GET_LOCK`), named after the owner of a queue entry or of a held
//! lock. One session of this client has all its bells. A bell hangs from when its owner enters the
//! queue, or from when this client learns that somebody waits for what it holds, until the owner
//! has left the queue or released the lock. Then it rings: the session that listens gets that lock
//! of the server. If this process or its session ends, all its bells ring.
//!
//! A bell is a hint. A waiter that hears it reads the row.

use std::{
    collections::{HashMap, HashSet},
    mem::take,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lock_core::{Mutex, OwnerId, SystemEnv, jittered};
use sqlx::Error;
use tokio::{
    sync::{Notify, Semaphore},
    task::AbortHandle,
    time::{Instant, sleep, timeout},
};

use super::session::Session;
use crate::{
    mysql::{connection::server::Server, statements::Statements},
    tunables::mysql::{
        BELL_CHECK, FREE_TO_GO_ON, LISTEN, LISTENERS, MOST_BELLS, RECONNECT, RECONNECT_FIRST,
    },
    waiting::Listening,
};

#[derive(Debug)]
pub(in crate::mysql) struct Bells(Arc<Ringer>);

/// Hangs and rings bells on one session, in a task of its own.
#[derive(Debug)]
struct Ringer {
    server: Arc<Server>,
    sql: Arc<Statements>,
    /// Whether a bell is heard by each client of the store: not on a group of servers.
    reach: AtomicBool,
    /// Whether the server has refused none.
    works: AtomicBool,
    /// The bells that are to hang, and until when at least.
    wanted: Mutex<HashMap<OwnerId, Instant>>,
    changed: Notify,
    task: Mutex<Option<AbortHandle>>,
    /// Sessions that have heard a bell, for the next one.
    idle: Mutex<Vec<Session>>,
    listeners: Arc<Semaphore>,
    /// Until then no session to listen is opened, since the last one failed.
    deaf_until: Mutex<Option<Instant>>,
}

impl Drop for Bells {
    fn drop(&mut self) {
        self.close();
    }
}

impl Bells {
    pub(in crate::mysql) fn new(server: &Arc<Server>, sql: &Arc<Statements>) -> Self {
        Self(Arc::new(Ringer {
            server: Arc::clone(server),
            sql: Arc::clone(sql),
            reach: AtomicBool::new(true),
            works: AtomicBool::new(true),
            wanted: Mutex::default(),
            changed: Notify::new(),
            task: Mutex::default(),
            idle: Mutex::default(),
            listeners: Arc::new(Semaphore::new(LISTENERS)),
            deaf_until: Mutex::default(),
        }))
    }

    /// Says whether a bell is heard by each client of the store.
    pub(in crate::mysql) fn set_reach(&self, reach: bool) {
        self.0.reach.store(reach, Ordering::Relaxed);
    }

    /// Whether a release wakes a waiter.
    pub(in crate::mysql) fn work(&self) -> bool {
        self.0.reach.load(Ordering::Relaxed) && self.0.works.load(Ordering::Relaxed)
    }

    /// Hangs the bell of an owner for at least so long.
    pub(in crate::mysql) fn hang(&self, owner: OwnerId, span: Duration) {
        if !self.0.reach.load(Ordering::Relaxed) {
            return;
        }
        let until = Instant::now() + span;
        let mut wanted = self.0.wanted.lock();
        if let Some(known) = wanted.get_mut(&owner) {
            *known = until.max(*known);
        } else if wanted.len() < MOST_BELLS {
            wanted.insert(owner, until);
            self.0.changed.notify_one();
        }
        drop(wanted);
        let mut task = self.0.task.lock();
        if task.as_ref().is_none_or(AbortHandle::is_finished) {
            *task = Some(tokio::spawn(Arc::clone(&self.0).run()).abort_handle());
        }
    }

    /// Keeps the bell of an owner for at least so long, if it hangs. Returns whether it does.
    pub(in crate::mysql) fn keep(&self, owner: OwnerId, span: Duration) -> bool {
        let mut wanted = self.0.wanted.lock();
        let Some(until) = wanted.get_mut(&owner) else { return false };
        *until = (*until).max(Instant::now() + span);
        true
    }

    /// Rings the bell of an owner, if it hangs.
    pub(in crate::mysql) fn ring(&self, owner: OwnerId) {
        if self.0.wanted.lock().remove(&owner).is_some() {
            self.0.changed.notify_one();
        }
    }

    /// Listens to the bell of another owner. `None` if this client has no session for that.
    pub(in crate::mysql) fn listen(&self, owner: OwnerId) -> Option<Listening> {
        if self.0.deaf_until.lock().is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let permit = Arc::clone(&self.0.listeners).try_acquire_owned().ok()?;
        let ringer = Arc::clone(&self.0);
        Some(Listening::new(async move {
            let _permit = permit;
            let heard = ringer.hear(owner).await;
            if let Err(error) = &heard {
                tracing::trace!(target: "leasehold", %error, "a bell cannot be heard; its waiter polls");
                *ringer.deaf_until.lock() = Some(Instant::now() + BELL_CHECK);
            }
            heard.is_ok()
        }))
    }

    pub(in crate::mysql) fn close(&self) {
        if let Some(task) = self.0.task.lock().take() {
            task.abort();
        }
        self.0.wanted.lock().clear();
        self.0.idle.lock().clear();
    }
}

impl Ringer {
    async fn hear(&self, owner: OwnerId) -> Result<(), Error> {
        let idle = self.idle.lock().pop();
        let mut session = match idle {
            Some(session) => session,
            None => Session::open(&self.server, &self.sql).await?,
        };
        while !session.hears(owner).await? {}
        self.idle.lock().push(session);
        Ok(())
    }

    async fn run(self: Arc<Self>) {
        let mut pause = RECONNECT_FIRST;
        loop {
            let began = Instant::now();
            let Err(error) = self.serve().await else { return };
            tracing::trace!(target: "leasehold", %error, "the bells of this client have rung; waiters poll");
            if began.elapsed() > RECONNECT {
                pause = RECONNECT_FIRST;
            }
            sleep(jittered(&SystemEnv, pause)).await;
            pause = (pause * 2).min(RECONNECT);
        }
    }

    /// Serves until no bell was wanted for a while. If it fails, the session ends, and all bells
    /// ring.
    async fn serve(&self) -> Result<(), Error> {
        let mut session = Session::open(&self.server, &self.sql).await?;
        let mut counted = Instant::now();
        let mut hung = HashSet::new();
        loop {
            let (over, new) = self.changes(&hung);
            for owner in &over {
                session.ring(*owner).await?;
                hung.remove(owner);
            }
            for owner in &new {
                let answer = session.hang(*owner).await;
                self.works.store(!matches!(answer, Err(Error::Database(_))), Ordering::Relaxed);
                answer?;
                hung.insert(*owner);
            }
            if !over.is_empty() || !new.is_empty() {
                continue;
            }
            if timeout(BELL_CHECK, self.changed.notified()).await.is_ok() {
                continue;
            }
            let is_over = self.forget_old();
            let idle = take(&mut *self.idle.lock());
            for session in idle {
                session.close().await;
            }
            if is_over {
                session.close().await;
                return Ok(());
            }
            // The session may be gone, and its bells with it.
            session.ping().await?;
            if counted.elapsed() >= LISTEN {
                counted = Instant::now();
                session.has_room(FREE_TO_GO_ON).await?;
            }
        }
    }

    /// The bells that hang and are to ring, and those that are to hang.
    fn changes(&self, hung: &HashSet<OwnerId>) -> (Vec<OwnerId>, Vec<OwnerId>) {
        let wanted = self.wanted.lock();
        let over = hung.iter().filter(|owner| !wanted.contains_key(owner)).copied().collect();
        let new = wanted.keys().filter(|owner| !hung.contains(owner)).copied().collect();
        (over, new)
    }

    /// Forgets the bells whose time is over. If no bell is wanted, this task counts as ended: the
    /// next bell starts another.
    fn forget_old(&self) -> bool {
        let mut task = self.task.lock();
        let mut wanted = self.wanted.lock();
        let now = Instant::now();
        wanted.retain(|_, until| *until > now);
        if wanted.is_empty() {
            *task = None;
        }
        wanted.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use servers::{Mariadb, MariadbOptions, Server as _, wait::until};
    use sqlx::mysql::MySqlPoolOptions;

    use super::*;
    use crate::{
        gate::Gate, retry::Retry, servers::connections::Connections, sql_files, tables::Tables,
    };

    const WAIT: Duration = Duration::from_secs(20);

    /// As behind a proxy, or with a user, that has no such locks.
    #[tokio::test]
    async fn where_the_server_refuses_bells_there_are_none() {
        let server = Mariadb::start(MariadbOptions::new()).await.unwrap();
        let url = format!("mysql://root@{}/test?ssl-mode=disabled", server.address());
        let pool = MySqlPoolOptions::new().connect_lazy(&url).unwrap();
        let (connections, retry) = (Connections::new(pool, false), Retry::new(WAIT, "it".into()));
        let ours = Arc::new(Server { connections, retry, gate: Gate::new(5, WAIT) });
        let bells = |hang: &str| {
            let mut sql = Statements::new(&Tables::new("leasehold").unwrap());
            let text = format!("DO {hang}(?, 0)");
            sql.hang_bell = sql_files::Statement { text, order: vec![0] }.into();
            Bells::new(&ours, &Arc::new(sql))
        };
        let refused = bells("NO_SUCH_LOCK");
        assert!(refused.work());
        refused.hang(OwnerId::from_bits(1), WAIT);
        let ended = async || Ok((!refused.work()).then_some(()));
        until("the bells to be off", WAIT, ended).await.unwrap();

        let hung = bells("GET_LOCK");
        let owner = OwnerId::from_bits(2);
        hung.hang(owner, WAIT);
        let used = format!("SELECT IS_USED_LOCK('leasehold.{owner}') IS NOT NULL");
        let hangs = async || Ok((server.sql(&used).await? == "1").then_some(()));
        until("the bell to hang", WAIT, hangs).await.unwrap();
        assert!(hung.work());
        // On a group of servers none hangs.
        hung.set_reach(false);
        assert!(!hung.work());
        let other = OwnerId::from_bits(3);
        hung.hang(other, WAIT);
        assert!(!hung.keep(other, WAIT));
    }
}
