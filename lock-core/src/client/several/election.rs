//! Leader election: the holder of the lock leads, and its fencing token is the term.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::sync::watch;

use super::leader_watch::{Leadership, watch_leader};
use super::leader_word::{LeaderWord, read_word};
use crate::{
    Error, ErrorKind, Guard, Lock, LockClient, LockName, Monitor, OncePer,
    client::Finished,
    jittered,
    tunables::{ELECTION_PAUSE, LONGEST_WATCH, SHORTEST_WATCH},
};

impl LockClient {
    /// An election: the client that holds the lock `name` leads. An invalid name is an error of the
    /// election's methods.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::Error> {
    /// # let client = lock_core::LockClient::new(std::sync::Arc::new(lock_core::Memory::new()));
    /// let election = client.election("scheduler");
    /// // Waits until this client leads. If it loses leadership before the work is done, it starts
    /// // again.
    /// let done = election.run(async |leadership| format!("term {}", leadership.token())).await?;
    /// println!("{}", done.output);
    /// # Ok(())
    /// # }
    /// ```
    pub fn election<N>(&self, name: N) -> Election
    where
        N: TryInto<LockName>,
        N::Error: Into<Error>,
    {
        Election { lock: self.lock(name) }
    }
}

/// A leader election. Made by [`LockClient::election`].
///
/// The leader is the client that holds the lock of the election's name. Its term is the fencing
/// token, which grows with each leader. Send the term with each write: a leader that was paused may
/// believe that it still leads until it checks its validity, and only a fence refuses its writes.
#[derive(Clone, Debug)]
#[must_use = "nothing happens until `campaign` or `run`"]
pub struct Election {
    lock: Lock,
}

impl Election {
    /// Sets the lease of the leadership, as [`Lock::lease`]. After a leader has crashed, the next
    /// one follows when this lease is over.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lock = self.lock.lease(lease);
        self
    }

    /// Waits until this client leads.
    ///
    /// # Guarantees
    ///
    /// As [`Lock::acquire`]. There is at most one leader at a time, if the store promises
    /// exclusion. [`Guard::token`] is the term, [`Guard::lost`] ends when the leadership is lost,
    /// and [`Guard::release`] resigns.
    ///
    /// # Durations
    ///
    /// It waits while others lead.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`].
    pub async fn campaign(&self) -> Result<Guard, Error> {
        self.lock.clone().acquire().await
    }

    /// Campaigns and runs `work` while it leads, again and again until `work` returns.
    ///
    /// # Guarantees
    ///
    /// `work` is polled only while this client leads, as in [`Lock::with`]. If the client loses
    /// leadership, it drops the future of `work`, and campaigns again after a pause of about 1 s.
    /// When `work` returns, the client resigns. With work that never returns, the client is a
    /// candidate for ever.
    ///
    /// # Errors
    ///
    /// Those of [`Lock::acquire`] that a retry cannot mend, such as `InvalidInput`, `Auth` and
    /// `Config`; `Config` also if the client is closed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and resigns in the background; [`LockClient::close`]
    /// waits for that. So a shutdown is a `select!` of this future and the signal.
    pub async fn run<F, W>(&self, mut work: F) -> Result<Finished<W::Output>, Error>
    where
        F: FnMut(Monitor) -> W,
        W: Future,
    {
        let failure_line = OncePer::minute();
        loop {
            match self.lock.clone().with(&mut work).await {
                Err(error) if error.kind() == ErrorKind::Lost || error.is_retryable() => {
                    let env = &self.lock.state().env;
                    if error.kind() == ErrorKind::Lost || failure_line.is_due(env.now()) {
                        tracing::info!(
                            target: "leasehold", %error,
                            "not the leader, or no longer; campaigning again"
                        );
                    }
                    env.sleep(jittered(&**env, ELECTION_PAUSE)).await;
                }
                ended => return ended,
            }
        }
    }

    /// Reads what the last leader that published has said ([`Monitor::publish`]), and whether that
    /// leader still leads; `None` if none has.
    ///
    /// # Guarantees
    ///
    /// If [`LeaderWord::leads`], the leader of this term had published the word and led while the
    /// store answered. It may have lost the leadership since. A leader that has not published yet
    /// leaves the word of the one before, whose `leads` is then `false`.
    ///
    /// # Durations
    ///
    /// It ends within twice the client's `call_timeout`.
    ///
    /// # Errors
    ///
    /// As [`LockClient::read_record`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn word(&self) -> Result<Option<LeaderWord>, Error> {
        read_word(&self.lock.client(), self.lock.name()?).await
    }

    /// Watches who leads, for display and for routing requests to the leader.
    ///
    /// The watch ends, and its receivers see a closed channel, when all receivers are dropped, the
    /// client is closed, its last clone and guard are gone, or the runtime that started it ends.
    ///
    /// # Guarantees
    ///
    /// What it shows was true in the store at most `stale` ago. If the store does not answer in
    /// time, it shows [`Leadership::Unknown`]. It may miss a short term. Do not use it to decide
    /// who leads: only the leader's own guard knows.
    ///
    /// # Durations
    ///
    /// `stale` must be between 10 ms and 1 h. The watch reads the store twice in this time, and
    /// gives each read half of it, but at most the client's `call_timeout`. While the runtime does
    /// not run its task, the watch shows nothing new. After a suspend of the machine it may be up
    /// to a second late.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name or `stale`; `Config` without a tokio runtime, or if the
    /// client is closed.
    pub fn watch(&self, stale: Duration) -> Result<watch::Receiver<Leadership>, Error> {
        let name = self.lock.name()?.clone();
        if !(SHORTEST_WATCH..=LONGEST_WATCH).contains(&stale) {
            let stale = humantime::format_duration(stale);
            let message = format!("stale {stale} must be between 10ms and 1h");
            return Err(Error::new(ErrorKind::InvalidInput, message).on(&name));
        }
        let handle = &self.lock.handle;
        handle.check_open().map_err(|error| error.on(&name))?;
        let (sender, receiver) = watch::channel(Leadership::Unknown("not asked yet".to_owned()));
        let watching =
            Box::pin(watch_leader(Arc::downgrade(handle), name.clone(), stale / 2, sender));
        handle.env.spawn(watching).map_err(|error| {
            Error::new(ErrorKind::Config, "watching needs a tokio runtime")
                .with_source(error)
                .on(&name)
        })?;
        Ok(receiver)
    }
}
