//! Leader election: the leader is whoever holds the lock, and the token is the term.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::sync::watch;

use super::leadership::{Leadership, look_again};
use crate::{
    Error, ErrorKind, Guard, Lock, LockClient, LockName, Monitor,
    client::Finished,
    jittered,
    tunables::{ELECTION_PAUSE, LONGEST_WATCH, SHORTEST_WATCH},
};

impl LockClient {
    /// An election: the candidate that holds the lock `name` leads. A bad name is an error of the calls.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::Error> {
    /// # let client = lock_core::LockClient::new(std::sync::Arc::new(lock_core::Memory::new()));
    /// let election = client.election("scheduler");
    /// // Waits until it leads; starts again where leadership is lost before the work is done.
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
/// The leader is the client that holds the lock of the election's name; its term is the fencing token, which rises
/// with each leader. Send the term with each write: a leader that was paused may believe that it still leads until it
/// checks its validity, and only a fence refuses its writes.
#[derive(Clone)]
#[must_use = "nothing happens until `campaign` or `run`"]
pub struct Election {
    lock: Lock,
}

impl Election {
    /// Sets the lease of the leadership, as [`Lock::lease`]. When a leader crashes, the next one follows after this time.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lock = self.lock.lease(lease);
        self
    }

    /// Waits until this client leads.
    ///
    /// *Guarantees*: as [`Lock::acquire`]: at most one leader at a time, as far as the store promises exclusion.
    /// [`Guard::token`] is the term, [`Guard::lost`] ends with the leadership, and [`Guard::release`]
    /// resigns.
    ///
    /// *Durations*: for as long as others lead.
    ///
    /// *Errors, cancel safety*: as [`Lock::acquire`].
    pub async fn campaign(&self) -> Result<Guard, Error> {
        self.lock.clone().acquire().await
    }

    /// Leads and works, again and again, until the work ends by itself.
    ///
    /// *Guarantees*: `work` is polled only while this client leads, as by [`Lock::with`]. If leadership is lost, the future of `work` is dropped,
    /// and after a pause of about 1 s it campaigns again. When `work` returns, this client resigns. Work that never
    /// returns makes it a candidate for ever.
    ///
    /// *Errors*: those of [`Lock::acquire`] that do not go away by waiting, such as `InvalidInput`, `Auth` and
    /// `Config`; also `Config` once the client is closed.
    ///
    /// *Cancel safety*: dropping it drops the work, and resigns in the background:
    /// [`LockClient::close`] then waits for that. So a shutdown is a `select!` of this and the signal.
    pub async fn run<F, W>(&self, mut work: F) -> Result<Finished<W::Output>, Error>
    where
        F: FnMut(Monitor) -> W,
        W: Future,
    {
        loop {
            match self.lock.clone().with(&mut work).await {
                Err(error) if error.kind() == ErrorKind::Lost || error.is_retryable() => {
                    tracing::info!(%error, "did not lead, or leads no more; campaigning again");
                    let env = &self.lock.state().env;
                    env.sleep(jittered(&**env, ELECTION_PAUSE)).await;
                }
                ended => return ended,
            }
        }
    }

    /// Watches who leads, until all receivers are dropped, the client is closed, or its last clone and guard are gone.
    /// The receivers then see that the channel is closed.
    ///
    /// *Guarantees*: what it shows was true in the store at most `stale` ago. If the store does not answer in time, it
    /// shows [`Leadership::Unknown`]. It may miss a shorter term. Do not decide by it: only the leader's own guard tells
    /// whether it leads.
    ///
    /// *Durations*: it asks the store twice in `stale`, which is between 10 ms and 1 h, and gives each answer half of
    /// `stale`, but at most the client's `call_timeout`. While the runtime does not run its task, it shows nothing new.
    /// After a suspend of the machine that may last up to a second longer.
    ///
    /// *Errors*: `InvalidInput` for a bad name or `stale`; `Config` without a tokio runtime, or once the client is
    /// closed.
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
        let looks = Box::pin(look_again(Arc::downgrade(handle), name.clone(), stale / 2, sender));
        handle.env.spawn(looks).map_err(|error| {
            Error::new(ErrorKind::Config, "watching needs a tokio runtime")
                .with_source(error)
                .on(&name)
        })?;
        Ok(receiver)
    }
}
