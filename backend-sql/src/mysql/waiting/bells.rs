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
    time::{Instant, sleep, timeout_at},
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
    /// How many more may listen. Closed together with this client.
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
        let is_closed = self.0.listeners.is_closed();
        if !is_closed && task.as_ref().is_none_or(AbortHandle::is_finished) {
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
                ringer.be_deaf(BELL_CHECK);
            }
            heard.is_ok()
        }))
    }

    /// From here on no session is opened or kept.
    pub(in crate::mysql) fn close(&self) {
        self.0.listeners.close();
        if let Some(task) = self.0.task.lock().take() {
            task.abort();
        }
        self.0.wanted.lock().clear();
        self.0.idle.lock().clear();
    }
}

impl Ringer {
    /// Opens no session to listen for at least so long.
    fn be_deaf(&self, pause: Duration) {
        let mut until = self.deaf_until.lock();
        *until = (*until).max(Some(Instant::now() + pause));
    }

    async fn hear(&self, owner: OwnerId) -> Result<(), Error> {
        let idle = self.idle.lock().pop();
        let mut session = match idle {
            Some(session) => session,
            None => Session::open(&self.server, &self.sql).await.inspect_err(|_| {
                // Each try begins a session, and if the server is full, all its waiters try.
                self.be_deaf(jittered(&SystemEnv, RECONNECT));
            })?,
        };
        while !session.hears(owner).await? {}
        let mut idle = self.idle.lock();
        if !self.listeners.is_closed() {
            idle.push(session);
        }
        Ok(())
    }

    async fn run(self: Arc<Self>) {
        let mut pause = RECONNECT_FIRST;
        loop {
            let began = Instant::now();
            let Err(error) = self.serve().await else { return };
            tracing::trace!(target: "leasehold", %error, "the bells of this client have rung; waiters poll");
            self.idle.lock().clear();
            if self.forget_old(true) {
                return;
            }
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
        let (mut checked, mut counted) = (Instant::now(), Instant::now());
        let (mut hung, mut is_quiet) = (HashSet::new(), true);
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
            // However often something changes.
            let check = checked + BELL_CHECK;
            if Instant::now() < check && timeout_at(check, self.changed.notified()).await.is_ok() {
                is_quiet = false;
                continue;
            }
            checked = Instant::now();
            let is_over = self.forget_old(is_quiet);
            is_quiet = true;
            let unused = |it: &mut Session| is_over || it.used.elapsed() >= BELL_CHECK;
            let unused: Vec<_> = self.idle.lock().extract_if(.., unused).collect();
            for session in unused {
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

    /// Forgets the bells whose time is over. If then no bell is wanted, and none came or went
    /// lately, this task counts as ended: the next bell starts another.
    fn forget_old(&self, is_quiet: bool) -> bool {
        let mut task = self.task.lock();
        let mut wanted = self.wanted.lock();
        let now = Instant::now();
        wanted.retain(|_, until| *until > now);
        let is_over = is_quiet && wanted.is_empty();
        if is_over {
            *task = None;
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use servers::{Mariadb, MariadbOptions, Server as _, wait::until};
    use sqlx::{Connection as _, MySqlConnection, mysql::MySqlPoolOptions};

    use super::*;
    use crate::{
        gate::Gate, retry::Retry, servers::connections::Connections, sql_files, tables::Tables,
    };

    const WAIT: Duration = Duration::from_secs(20);

    async fn start() -> Mariadb {
        Mariadb::start(MariadbOptions::new()).await.unwrap()
    }

    /// The bells of a client, which are hung with this function.
    fn bells(server: &Mariadb, hang: &str) -> Bells {
        let url = format!("mysql://root@{}/test?ssl-mode=disabled", server.address());
        let pool = MySqlPoolOptions::new().connect_lazy(&url).unwrap();
        let (connections, retry) = (Connections::new(pool, false), Retry::new(WAIT, "it".into()));
        let ours = Arc::new(Server { connections, retry, gate: Gate::new(5, WAIT) });
        let mut sql = Statements::new(&Tables::new("leasehold").unwrap());
        let text = format!("DO {hang}(?, 0)");
        sql.hang_bell = sql_files::Statement { text, order: vec![0] }.into();
        Bells::new(&ours, &Arc::new(sql))
    }

    /// Waits until the bell of an owner hangs.
    async fn hung(server: &Mariadb, owner: OwnerId) {
        let used = format!("SELECT IS_USED_LOCK('leasehold.{owner}') IS NOT NULL");
        let hangs = async || Ok((server.sql(&used).await? == "1").then_some(()));
        until("the bell to hang", WAIT, hangs).await.unwrap();
    }

    /// As behind a proxy, or with a user, that has no such locks.
    #[tokio::test]
    async fn where_the_server_refuses_bells_there_are_none() {
        let server = start().await;
        let refused = bells(&server, "NO_SUCH_LOCK");
        assert!(refused.work());
        refused.hang(OwnerId::from_bits(1), WAIT);
        let ended = async || Ok((!refused.work()).then_some(()));
        until("the bells to be off", WAIT, ended).await.unwrap();

        let bells = bells(&server, "GET_LOCK");
        let owner = OwnerId::from_bits(2);
        bells.hang(owner, WAIT);
        hung(&server, owner).await;
        assert!(bells.work());
        // On a group of servers none hangs.
        bells.set_reach(false);
        assert!(!bells.work());
        let other = OwnerId::from_bits(3);
        bells.hang(other, WAIT);
        assert!(!bells.keep(other, WAIT));
    }

    /// Also where the server refuses all bells, or others come and go all the time.
    #[tokio::test]
    async fn a_bell_whose_time_is_over_is_forgotten() {
        let server = start().await;
        for hang in ["GET_LOCK", "NO_SUCH_LOCK"] {
            let bells = bells(&server, hang);
            let old = OwnerId::from_bits(1);
            bells.hang(old, Duration::ZERO);
            let mut others = (2..).map(OwnerId::from_bits);
            let forgotten = || {
                let other = others.next().unwrap();
                bells.hang(other, WAIT);
                bells.ring(other);
                std::future::ready(Ok((!bells.keep(old, Duration::ZERO)).then_some(())))
            };
            until("the bell to be forgotten", WAIT, forgotten).await.unwrap();
        }
    }

    /// To find that out takes a session, and all waiters of the server do.
    #[tokio::test]
    async fn a_client_of_a_full_server_seldom_tries_again() {
        let server = start().await;
        let bells = bells(&server, "GET_LOCK");
        server.sql("SET GLOBAL max_connections = 12").await.unwrap();
        let url = format!("mysql://root@{}/test?ssl-mode=disabled", server.address());
        let other = async |_| MySqlConnection::connect(&url).await.unwrap();
        let _others = futures_util::future::join_all((0..10).map(other)).await;
        let owner = OwnerId::from_bits(1);
        bells.0.hear(owner).await.unwrap_err();
        tokio::time::pause();
        tokio::time::advance(BELL_CHECK * 2).await;
        assert!(bells.listen(owner).is_none());
        tokio::time::advance(RECONNECT * 2).await;
        assert!(bells.listen(owner).is_some());
    }

    #[tokio::test]
    async fn a_closed_client_opens_and_keeps_no_session() {
        let server = start().await;
        let (others, closed) = (bells(&server, "GET_LOCK"), bells(&server, "GET_LOCK"));
        let owner = OwnerId::from_bits(1);
        others.hang(owner, WAIT);
        hung(&server, owner).await;
        let heard = tokio::spawn({
            let ringer = Arc::clone(&closed.0);
            async move { ringer.hear(owner).await }
        });
        let listens =
            "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'";
        let listening = async || Ok((server.sql(listens).await? == "1").then_some(()));
        until("one to listen", WAIT, listening).await.unwrap();
        closed.close();
        others.ring(owner);
        heard.await.unwrap().unwrap();
        assert!(closed.0.idle.lock().is_empty());
        assert!(closed.listen(owner).is_none());
        closed.hang(owner, WAIT);
        assert!(closed.0.task.lock().is_none());
    }
}
