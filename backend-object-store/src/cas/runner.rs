//! Carries a step out: reads, decides, writes on a condition, and resolves what is unknown.

use std::{future::Future, sync::Arc, time::Duration};

use lock_core::{Env, Error, ErrorKind, LockName};
use tokio::sync::Semaphore;

use super::{
    decide::{Answer, Decision, Step, Verb, decide},
    keys,
    observed::{Observed, View},
    record::{Nonce, Record},
    settings::encode,
    store::{CasStore, Put},
    tries::{Tries, until},
};

/// One store, as this client sees it.
#[derive(Debug)]
pub(super) struct Runner {
    pub(super) store: Arc<dyn CasStore>,
    pub(super) env: Arc<dyn Env>,
    pub(super) observed: Observed,
    pub(super) timeout: Duration,
    /// The turns of renewals: a client with many locks sends so many at once.
    pub(super) renewals: Semaphore,
}

/// The answer to a step, and the record after it.
pub(super) type Stepped = (Answer, View);

/// The writes of one step.
#[derive(Default)]
struct Sent {
    /// Each write, and the answer if it is carried out, which may be late.
    writes: Vec<(Nonce, Answer)>,
    /// Whether one may have been carried out, before another client wrote.
    is_doubtful: bool,
}

impl Sent {
    /// The answer of the write that has made this record, or was the last one to free the lock.
    fn answer(&self, record: &Record) -> Option<Answer> {
        let is_in = |nonce: &Nonce| record.nonce == *nonce || record.freed.as_ref() == Some(nonce);
        self.writes.iter().find(|(own, _)| is_in(own)).map(|(_, answer)| *answer)
    }
}

impl Runner {
    /// Ends a call after the timeout.
    ///
    /// # Errors
    /// `Timeout`.
    pub(super) async fn in_time<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::select! {
            biased;
            answer = call => answer,
            () = self.env.sleep(self.timeout) => {
                let within = humantime::format_duration(self.timeout);
                Err(Error::new(ErrorKind::Timeout, format!("no answer within {within}")))
            }
        }
    }

    /// Reads a record, and a few times again if the store could not answer.
    ///
    /// # Errors
    /// As the store.
    pub(super) async fn read(&self, name: &LockName) -> Result<View, Error> {
        let key = keys::of(name);
        let object = until(&*self.env, || async { self.store.get(&key).await.map(Some) }).await?;
        let seen = object.map(|object| (Record::read(&object.bytes), object.version));
        // The clock is read after the answer has come.
        Ok(self.observed.look(name, seen, false, self.env.now()))
    }

    /// Carries out a step.
    ///
    /// # Errors
    /// As the store; `Timeout` and `OutcomeUnknown` if a write was sent, and nobody knows what
    /// became of it.
    pub(super) async fn step(&self, name: &LockName, step: &Step) -> Result<Stepped, Error> {
        let call = async {
            let _turn = match step.verb {
                Verb::Renew(_) => self.renewals.acquire().await.ok(),
                _ => None,
            };
            self.rounds(name, step).await
        };
        self.in_time(call).await
    }

    async fn rounds(&self, name: &LockName, step: &Step) -> Result<Stepped, Error> {
        let (mut sent, mut tries) = (Sent::default(), Tries::new(&*self.env));
        // A holder knows its own last write, and that saves the read.
        let is_own = |view: &View| {
            let holder = view.record().and_then(|record| record.holder.as_ref());
            holder.is_some_and(|held| held.owner == step.owner)
        };
        // The answer to a renewal says that the lock is gone, but not who ended it.
        let is_renewal = matches!(step.verb, Verb::Renew(_));
        let mut known = self.observed.written(name, self.env.now()).filter(is_own);
        loop {
            match self.round(name, step, known.take(), &mut sent).await {
                Ok(Some((Answer::NotHeld, _))) if sent.is_doubtful && !is_renewal => {
                    return Err(unknown());
                }
                Ok(Some(stepped)) => return Ok(stepped),
                Err(error) if sent.writes.is_empty() => return Err(error),
                Err(error) if !error.is_retryable() => return Err(unknown().with_source(error)),
                // The next read says what became of the writes.
                Ok(None) | Err(_) => tries.pause().await,
            }
        }
    }

    /// One round. `None` if its write was refused.
    async fn round(
        &self,
        name: &LockName,
        step: &Step,
        known: Option<View>,
        sent: &mut Sent,
    ) -> Result<Option<Stepped>, Error> {
        let decided = |view: View| {
            let (nonce, wall) = (Nonce::of(self.env.random()), self.env.wall_micros());
            (decide(view.record(), view.is_over(), step, nonce, wall), view)
        };
        // A write on an old record fails. An answer from one may be wrong.
        let is_write = |decided: &(Decision, View)| matches!(decided.0, Decision::Write(..));
        let known = known.map(decided).filter(is_write);
        let from_memory = known.is_some();
        let (decision, view) = match known {
            Some(known) => known,
            None => {
                let view = self.read(name).await?;
                if let Some(answer) = view.record().and_then(|record| sent.answer(record)) {
                    return Ok(Some((answer, view)));
                }
                decided(view)
            }
        };
        let (record, answer) = match decision {
            Decision::Write(record, answer) => (record, answer),
            Decision::Answer(answer) => return Ok(Some((answer, view))),
        };
        let bytes = encode(&record)?;
        sent.writes.push((record.nonce.clone(), answer));
        let put = self.store.put_if(&keys::of(name), bytes, view.version()).await;
        // What this client remembered was out of date, as after a release by force.
        sent.is_doubtful |= !(from_memory && matches!(put, Ok(Put::Refused)));
        if put.as_ref().is_err_and(|error| !error.is_retryable()) {
            sent.writes.pop();
        }
        let Put::Written(version) = put? else { return Ok(None) };
        let view = self.observed.look(name, Some((record, version)), true, self.env.now());
        Ok(Some((answer, view)))
    }
}

fn unknown() -> Error {
    Error::new(ErrorKind::OutcomeUnknown, "nobody can say what became of a write")
}
