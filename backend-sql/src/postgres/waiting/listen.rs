//! The one connection on which the server tells a client that one of its entries has its turn.

use std::sync::{Arc, Weak};

use lock_core::{Error, ErrorKind, SystemEnv, jittered};
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
    postgres::connection::{arg::Arg::Text, health::Room, server::Server},
    tunables::postgres::{
        BEGIN, CHECK, ECHO, FREE_TO_GO_ON, FREE_TO_LISTEN, KNOWN, RECONNECT, RECONNECT_FIRST,
    },
};

const SESSION: &str = "SELECT pg_catalog.pg_backend_pid()";

/// What is known of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// Whether they arrive at this client when it listens.
    pub(crate) arrives: bool,
    /// Whether it listens. It does while it has entries, and needs no connection for it otherwise.
    pub(crate) now: bool,
}

/// Listens, while there are entries, until it is dropped.
#[derive(Debug)]
pub(crate) struct Listening {
    heard: watch::Receiver<Heard>,
    task: Option<AbortHandle>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Listening {
    /// Never listens.
    pub(crate) fn off() -> Self {
        Self { heard: watch::channel(Heard::default()).1, task: None }
    }

    /// Begins, and waits until it is known whether messages arrive: a pooler that gives each
    /// transaction another session passes none on.
    pub(crate) async fn start(server: &Arc<Server>, entries: &Arc<QueueEntries>) -> Self {
        let (tell, mut heard) = watch::channel(Heard::default());
        let listener = Listener {
            server: Arc::clone(server),
            channel: entries.channel(),
            entries: Arc::downgrade(entries),
            wanted: Arc::clone(&entries.wanted),
            tell,
        };
        heard.mark_unchanged();
        let task = tokio::spawn(listener.run()).abort_handle();
        let listening = Self { heard: heard.clone(), task: Some(task) };
        // An error of the other side would be its end.
        let _ = timeout(KNOWN, heard.changed()).await;
        listening
    }

    pub(crate) fn stop(&self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }

    pub(crate) fn heard(&self) -> watch::Receiver<Heard> {
        self.heard.clone()
    }
}

/// Why a client listens no more.
enum End {
    Lost,
    Idle,
}

struct Listener {
    server: Arc<Server>,
    channel: String,
    entries: Weak<QueueEntries>,
    wanted: Arc<Notify>,
    tell: watch::Sender<Heard>,
}

impl Listener {
    async fn run(self) {
        let mut pause = RECONNECT_FIRST;
        while self.entries.strong_count() > 0 {
            let ended = match self.begin_in_time().await {
                Ok(listener) => {
                    let began = Instant::now();
                    let ended = self.listen(listener).await;
                    // After one that worked for a while, and not only until its first check, the next is tried at once.
                    if began.elapsed() > RECONNECT {
                        pause = RECONNECT_FIRST;
                    }
                    ended
                }
                Err(error) => Err(error),
            };
            if matches!(ended, Ok(End::Idle)) {
                self.tell.send_replace(Heard { arrives: true, now: false });
                // A word of one that is there no more costs a connection for a moment.
                self.wanted.notified().await;
                continue;
            }
            self.server.sessions_are_ours(false);
            self.tell.send_replace(Heard::default());
            if let Err(error) = &ended {
                tracing::debug!(%error, "not told of turns; entries are looked after instead");
            }
            sleep(jittered(&SystemEnv, pause)).await;
            pause = (pause * 2).min(RECONNECT);
        }
    }

    /// Listens until the connection is lost or deaf, or there are no entries for a while.
    async fn listen(&self, mut listener: PgListener) -> Result<End, Error> {
        self.server.sessions_are_ours(true);
        self.tell.send_replace(Heard { arrives: true, now: true });
        if let Some(entries) = self.entries.upgrade() {
            entries.tell_all();
        }
        loop {
            let message = timeout(CHECK, listener.try_recv()).await;
            let Some(entries) = self.entries.upgrade() else { return Ok(End::Lost) };
            match message {
                Ok(Ok(Some(message))) => entries.tell(message.payload()),
                Ok(Ok(None)) => return Ok(End::Lost),
                Ok(Err(error)) => return Err(general(error)),
                Err(_) if entries.is_empty() => return Ok(End::Idle),
                Err(_) => {
                    // Many may have begun to listen at once.
                    self.has_room(FREE_TO_GO_ON).await?;
                    // No message to ourselves: the server would wake all sessions that listen.
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

    /// Fails where less than this part of the server's sessions is free.
    async fn has_room(&self, (part, all): (i64, i64)) -> Result<(), Error> {
        let room = Room::of(&self.server).await?;
        if room.left() * all < room.most * part {
            let why = "too many of the server's sessions are in use to be told of turns on one";
            return Err(Error::new(ErrorKind::Unavailable, why));
        }
        Ok(())
    }

    /// A connection on which messages arrive.
    async fn begin(&self) -> Result<PgListener, Error> {
        self.server.idle().await;
        self.has_room(FREE_TO_LISTEN).await?;
        // A pool for one connection, since that is what the driver listens on; a new one each time. Of the last
        // one the connection may hang for as long as the kernel believes in it, and it has no place for another.
        let own = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(BEGIN)
            .test_before_acquire(false)
            .connect_lazy_with((*self.server.pool.connect_options()).clone());
        let mut listener = PgListener::connect_with(&own).await.map_err(general)?;
        listener.eager_reconnect(false);
        self.refuse_pooler(&mut listener).await?;
        listener.listen(&self.channel).await.map_err(general)?;
        if let Err(error) = self.echo(&mut listener).await {
            // Before the session is somebody else's.
            let _ = listener.unlisten_all().await;
            return Err(error);
        }
        Ok(listener)
    }

    /// Behind a pooler that gives each transaction another session nothing must be listened for: the
    /// messages would be told to the client that has the session then, whose driver may not expect them.
    ///
    /// A session of our own is always the same, and never that of another connection. The order of the
    /// questions is such that neither the pooler that gives out the session that was last given back
    /// nor one that gives out each in turn can answer all of them so.
    async fn refuse_pooler(&self, listener: &mut PgListener) -> Result<(), Error> {
        let mut ours = None;
        for on_listener in [true, true, false, false, true, false, true, false, false, true] {
            let session = if on_listener {
                session(listener).await?
            } else {
                self.server.idle().await;
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

    /// Sends a message to ourselves by a connection of the pool, and waits for it.
    async fn echo(&self, listener: &mut PgListener) -> Result<(), Error> {
        self.server.idle().await;
        self.server.once(&self.server.sql.notify, &[Text(&self.channel)]).await?;
        let heard = async {
            loop {
                match listener.try_recv().await.map_err(general)? {
                    Some(message) if message.payload().is_empty() => return Ok(()),
                    Some(message) => {
                        if let Some(entries) = self.entries.upgrade() {
                            entries.tell(message.payload());
                        }
                    }
                    None => return Err(general(sqlx::Error::WorkerCrashed)),
                }
            }
        };
        timeout(ECHO, heard).await.unwrap_or_else(|_| {
            let why = "messages do not arrive: is there a pooler between?";
            Err(Error::new(ErrorKind::Unavailable, why))
        })
    }
}

/// The session that a connection has.
async fn session(listener: &mut PgListener) -> Result<i32, Error> {
    let row = sqlx::raw_sql(SESSION).fetch_one(listener).await;
    row.and_then(|row| row.try_get(0)).map_err(general)
}

#[cfg(test)]
mod tests {
    use conformance_tests::kit::{Pgbouncer, Postgres, PostgresOptions, Server as _};

    use super::*;
    use crate::{postgres::connection::sessions::Sessions, tables::Tables};
}
