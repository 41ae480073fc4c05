//! The one connection on which the server notifies a client that it is the turn of one of its
//! entries.

use std::sync::{Arc, Weak};

use lock_core::{Error, ErrorKind, Mutex, SystemEnv, jittered};
use sqlx::{
    Row as _,
    postgres::{PgListener, PgPoolOptions},
};
use tokio::{
    sync::{Notify, watch},
    task::AbortHandle,
    time::{Instant, sleep, timeout},
};

use super::entries::QueueEntries;
use crate::{
    error::general,
    postgres::connection::{arg::Arg::Text, health::SessionCount, server::Server},
    tunables::postgres::{
        BEGIN, CHECK, ECHO, FREE_TO_GO_ON, FREE_TO_LISTEN, KNOWN, RECONNECT, RECONNECT_FIRST,
    },
};

const SESSION: &str = "SELECT pg_catalog.pg_backend_pid()";

/// What the client knows of the delivery of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Whether messages arrive at this client when it listens.
    pub(crate) works: bool,
    /// Whether the client listens now. It listens only while it has entries, and then needs a
    /// connection for it.
    pub(crate) listening: bool,
}

/// A task that listens while there are entries, until this is dropped.
#[derive(Debug)]
pub(crate) struct Listening {
    delivery: watch::Sender<Delivery>,
    /// `None` for a client that never listens, or is closed.
    task: Mutex<Option<AbortHandle>>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Listening {
    /// For a client that never listens.
    pub(crate) fn off() -> Self {
        Self { delivery: watch::Sender::default(), task: Mutex::default() }
    }

    /// Starts the task, and waits until it is known whether messages arrive. A pooler that gives
    /// each transaction another session passes no messages on.
    pub(crate) async fn start(server: &Arc<Server>, entries: &Arc<QueueEntries>) -> Self {
        let listening = Self::off();
        let mut delivery = listening.delivery();
        delivery.mark_unchanged();
        *listening.task.lock() = Some(listening.spawn(server, entries));
        // An error means that the task has ended; the default then stands.
        let _ = timeout(KNOWN, delivery.changed()).await;
        listening
    }

    /// Starts the task again on the caller's runtime, if it has ended with its own.
    pub(crate) fn run(&self, server: &Arc<Server>, entries: &Arc<QueueEntries>) {
        let mut task = self.task.lock();
        if task.as_ref().is_some_and(AbortHandle::is_finished) {
            *task = Some(self.spawn(server, entries));
        }
    }

    fn spawn(&self, server: &Arc<Server>, entries: &Arc<QueueEntries>) -> AbortHandle {
        let listener = Listener {
            server: Arc::clone(server),
            channel: entries.channel(),
            entries: Arc::downgrade(entries),
            wanted: Arc::clone(&entries.wanted),
            publish: self.delivery.clone(),
        };
        tokio::spawn(listener.run()).abort_handle()
    }

    pub(crate) fn stop(&self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
    }

    pub(crate) fn delivery(&self) -> watch::Receiver<Delivery> {
        self.delivery.subscribe()
    }
}

/// Why a client stopped listening.
enum End {
    Lost,
    Idle,
}

struct Listener {
    server: Arc<Server>,
    channel: String,
    entries: Weak<QueueEntries>,
    wanted: Arc<Notify>,
    publish: watch::Sender<Delivery>,
}

impl Drop for Listener {
    /// No messages arrive any more, also if the task ends with its runtime.
    fn drop(&mut self) {
        self.stop_listening();
    }
}

impl Listener {
    fn stop_listening(&self) {
        self.server.sessions_are_ours(false);
        self.publish.send_replace(Delivery::default());
    }

    async fn run(self) {
        let mut pause = RECONNECT_FIRST;
        while self.entries.strong_count() > 0 {
            let ended = match self.begin_in_time().await {
                Ok(listener) => {
                    let began = Instant::now();
                    let ended = self.listen(listener).await;
                    // If the connection worked for longer than until its first check, the next one
                    // is tried at once.
                    if began.elapsed() > RECONNECT {
                        pause = RECONNECT_FIRST;
                    }
                    ended
                }
                Err(error) => Err(error),
            };
            if matches!(ended, Ok(End::Idle)) {
                self.publish.send_replace(Delivery { works: true, listening: false });
                // The signal may be of an entry that is gone by now. That costs a connection for a
                // moment.
                self.wanted.notified().await;
                continue;
            }
            self.stop_listening();
            if let Err(error) = &ended {
                tracing::trace!(target: "leasehold", %error, "no messages arrive; waiters poll instead");
            }
            sleep(jittered(&SystemEnv, pause)).await;
            pause = (pause * 2).min(RECONNECT);
        }
    }

    /// Listens until the connection is lost or gives no answer, or there have been no entries for a
    /// while.
    async fn listen(&self, mut listener: PgListener) -> Result<End, Error> {
        self.server.sessions_are_ours(true);
        self.publish.send_replace(Delivery { works: true, listening: true });
        if let Some(entries) = self.entries.upgrade() {
            entries.wake_all();
        }
        loop {
            let message = timeout(CHECK, listener.try_recv()).await;
            let Some(entries) = self.entries.upgrade() else { return Ok(End::Lost) };
            match message {
                Ok(Ok(Some(message))) => entries.notify(message.payload()),
                Ok(Ok(None)) => return Ok(End::Lost),
                Ok(Err(error)) => return Err(general(error)),
                Err(_) if entries.is_empty() => return Ok(End::Idle),
                Err(_) => {
                    // Many clients may have begun to listen at once.
                    self.has_free_sessions(FREE_TO_GO_ON).await?;
                    // A message to ourselves would wake all sessions of the server that listen.
                    timeout(ECHO, session(&mut listener)).await.unwrap_or_else(|_| {
                        let why = "no answer on the connection for messages";
                        Err(Error::new(ErrorKind::Timeout, why))
                    })?;
                }
            }
        }
    }

    async fn begin_in_time(&self) -> Result<PgListener, Error> {
        timeout(BEGIN, self.begin()).await.unwrap_or_else(|_| {
            let why = "no answer from the server that is to send messages";
            Err(Error::new(ErrorKind::Timeout, why))
        })
    }

    /// Fails if less than this part of the server's sessions is free.
    async fn has_free_sessions(&self, (part, all): (i64, i64)) -> Result<(), Error> {
        let room = SessionCount::of(&self.server).await?;
        if room.left() * all < room.most * part {
            let why = "too few of the server's sessions are free to use one for messages";
            return Err(Error::new(ErrorKind::Unavailable, why));
        }
        Ok(())
    }

    /// Opens a connection on which messages arrive.
    async fn begin(&self) -> Result<PgListener, Error> {
        self.server.wait_for_idle().await;
        self.has_free_sessions(FREE_TO_LISTEN).await?;
        // The driver listens on a pool, so this is a pool for one connection. It is a new pool each
        // time: the connection of the last one may hang until the kernel gives it up, and that pool
        // has no room for another.
        let own = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(BEGIN)
            .test_before_acquire(false)
            .connect_lazy_with((*self.server.connections.pool.connect_options()).clone());
        let mut listener = PgListener::connect_with(&own).await.map_err(general)?;
        listener.eager_reconnect(false);
        self.refuse_pooler(&mut listener).await?;
        listener.listen(&self.channel).await.map_err(general)?;
        if let Err(error) = self.echo(&mut listener).await {
            // Before a pooler gives the session to another client.
            let _ = listener.unlisten_all().await;
            return Err(error);
        }
        Ok(listener)
    }

    /// Fails behind a pooler that gives each transaction another session. To listen there would
    /// send messages to the client that has the session by then, whose driver may not expect them.
    ///
    /// Without such a pooler, a connection always has the same session, and no other connection has
    /// it. This asks both connections for their sessions in an order by which every such pooler is
    /// noticed: one that hands out the session that was returned last, and one that hands out each
    /// session in turn.
    async fn refuse_pooler(&self, listener: &mut PgListener) -> Result<(), Error> {
        let mut ours = None;
        for on_listener in [true, true, false, false, true, false, true, false, false, true] {
            let session = if on_listener {
                session(listener).await?
            } else {
                self.server.wait_for_idle().await;
                self.server.session(SESSION).await?
            };
            let known: i32 = *ours.get_or_insert(session);
            if (session == known) != on_listener {
                let why = "a pooler gives each transaction another session";
                return Err(Error::new(ErrorKind::Unsupported, why));
            }
        }
        Ok(())
    }

    /// Sends a message to ourselves over a connection of the pool, and waits until it arrives.
    async fn echo(&self, listener: &mut PgListener) -> Result<(), Error> {
        self.server.wait_for_idle().await;
        self.server.run_once(&self.server.sql.notify, &[Text(&self.channel)]).await?;
        let received = async {
            loop {
                match listener.try_recv().await.map_err(general)? {
                    Some(message) if message.payload().is_empty() => return Ok(()),
                    Some(message) => {
                        if let Some(entries) = self.entries.upgrade() {
                            entries.notify(message.payload());
                        }
                    }
                    None => return Err(general(sqlx::Error::WorkerCrashed)),
                }
            }
        };
        timeout(ECHO, received).await.unwrap_or_else(|_| {
            let why = "messages do not arrive: is there a pooler between?";
            Err(Error::new(ErrorKind::Unavailable, why))
        })
    }
}

/// The process id of a connection's session.
async fn session(listener: &mut PgListener) -> Result<i32, Error> {
    let row = sqlx::raw_sql(SESSION).fetch_one(listener).await;
    row.and_then(|row| row.try_get(0)).map_err(general)
}
