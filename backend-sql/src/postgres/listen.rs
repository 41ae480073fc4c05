//! The one connection on which a client is told that it is a place's turn.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use lock_core::{SystemEnv, jittered};
use sqlx::{
    PgPool, SqlStr,
    postgres::{PgListener, PgPoolOptions},
};
use tokio::{
    sync::watch,
    task::AbortHandle,
    time::{Instant, sleep, timeout},
};

use super::places::Places;

/// How long a message to ourselves may take before we count as deaf.
const ECHO: Duration = Duration::from_secs(1);
/// How often we send one while somebody waits: a connection may be gone without a word.
const CHECK: Duration = Duration::from_secs(5);
/// The longest pause before a connection is tried anew.
const PAUSE: Duration = Duration::from_secs(30);

/// Keeps the connection until it is dropped.
#[derive(Debug)]
pub(super) struct Listening {
    heard: watch::Receiver<bool>,
    task: Option<AbortHandle>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Listening {
    /// Never listens.
    pub(super) fn off() -> Self {
        Self { heard: watch::channel(false).1, task: None }
    }

    /// Begins, and waits until it is known whether messages arrive: a pooler that gives each
    /// transaction another session passes none on.
    pub(super) async fn start(pool: &PgPool, notify: SqlStr, places: &Arc<Places>) -> Self {
        let (tell, mut heard) = watch::channel(false);
        let listener = Listener {
            own: PgPoolOptions::new()
                .max_connections(1)
                .acquire_timeout(ECHO * 5)
                .test_before_acquire(false)
                .connect_lazy_with((*pool.connect_options()).clone()),
            pool: pool.clone(),
            notify,
            channel: places.channel(),
            places: Arc::downgrade(places),
            tell,
        };
        heard.mark_unchanged();
        let task = tokio::spawn(listener.run()).abort_handle();
        // An error of the other side would be its end.
        let _ = heard.changed().await;
        Self { heard, task: Some(task) }
    }

    pub(super) fn heard(&self) -> watch::Receiver<bool> {
        self.heard.clone()
    }
}

struct Listener {
    /// A pool for one connection, since that is what the driver listens on.
    own: PgPool,
    pool: PgPool,
    notify: SqlStr,
    channel: String,
    places: Weak<Places>,
    tell: watch::Sender<bool>,
}

impl Listener {
    async fn run(self) {
        let mut pause = Duration::from_millis(100);
        while self.places.strong_count() > 0 {
            let began = Instant::now();
            let ended = self.listen().await;
            self.tell.send_replace(false);
            if let Err(error) = &ended {
                tracing::debug!(%error, "not told of turns; places are looked after instead");
            }
            // One that worked for a while is tried again at once.
            pause = if began.elapsed() > CHECK { Duration::from_millis(100) } else { pause * 2 };
            pause = pause.min(PAUSE);
            sleep(jittered(&SystemEnv, pause)).await;
        }
    }

    /// Listens until the connection is lost or deaf.
    async fn listen(&self) -> Result<(), sqlx::Error> {
        let mut listener = PgListener::connect_with(&self.own).await?;
        listener.eager_reconnect(false);
        listener.listen(&self.channel).await?;
        self.echo(&mut listener).await?;
        self.tell.send_replace(true);
        if let Some(places) = self.places.upgrade() {
            places.tell_all();
        }
        loop {
            let message = timeout(CHECK, listener.try_recv()).await;
            let Some(places) = self.places.upgrade() else { return Ok(()) };
            match message {
                Ok(Ok(Some(message))) => places.tell(message.payload()),
                Ok(Ok(None)) => return Ok(()),
                Ok(Err(error)) => return Err(error),
                Err(_) if places.is_empty() => {}
                Err(_) => self.echo(&mut listener).await?,
            }
        }
    }

    /// Sends a message to ourselves by a connection of the pool, and waits for it.
    async fn echo(&self, listener: &mut PgListener) -> Result<(), sqlx::Error> {
        let send = sqlx::query(self.notify.clone()).bind(&self.channel).execute(&self.pool);
        timeout(ECHO * 5, send).await.map_err(|_| sqlx::Error::PoolTimedOut)??;
        let heard = async {
            loop {
                match listener.try_recv().await? {
                    Some(message) if message.payload().is_empty() => return Ok(()),
                    Some(message) => {
                        if let Some(places) = self.places.upgrade() {
                            places.tell(message.payload());
                        }
                    }
                    None => return Err(sqlx::Error::WorkerCrashed),
                }
            }
        };
        timeout(ECHO, heard).await.unwrap_or_else(|_| {
            let why = "messages do not arrive: is there a pooler between?";
            Err(sqlx::Error::Protocol(why.into()))
        })
    }
}
