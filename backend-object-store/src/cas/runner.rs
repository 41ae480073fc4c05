//! Carries a step out: reads, decides, writes on a condition, and resolves what is unknown.

use std::{future::Future, sync::Arc, time::Duration};

use lock_core::{Env, Error, ErrorKind, LockName, jittered};

use super::{
    decide::{Answer, Decision, Draw, Step, decide},
    keys,
    observed::{Observed, Seen, View},
    record::{Nonce, Record},
    settings::encode,
    store::{CasStore, Put},
};
use crate::tunables::{FIRST_PAUSE, LONGEST_PAUSE, READ_TRIES};

/// One store, as this client sees it.
#[derive(Debug)]
pub(super) struct Runner {
    pub(super) store: Arc<dyn CasStore>,
    pub(super) env: Arc<dyn Env>,
    pub(super) observed: Observed,
    pub(super) timeout: Duration,
}

/// What a step has done.
pub(super) struct Stepped {
    pub(super) answer: Answer,
    /// The record after the step.
    pub(super) view: View,
    /// Whether an earlier write of the step may have been carried out, and then replaced by another
    /// client's.
    pub(super) doubtful: bool,
}

/// A write of this call, and the answer if it is carried out, which may be late.
type Sent = (Nonce, Answer);

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

    /// Reads a record.
    ///
    /// # Errors
    /// As the store.
    pub(super) async fn read(&self, name: &LockName) -> Result<View, Error> {
        let object = self.store.get(&keys::of(name)).await?;
        let seen = Seen(object.map(|object| (Record::read(&object.bytes), object.version)));
        // The clock is read after the answer has come.
        Ok(self.observed.look(name, seen, self.env.now()))
    }

    /// Carries out a step.
    ///
    /// # Errors
    /// As the store; `Timeout` and `OutcomeUnknown` if a write was sent, and nobody knows what
    /// became of it.
    pub(super) async fn step(&self, name: &LockName, step: &Step) -> Result<Stepped, Error> {
        self.in_time(self.rounds(name, step)).await
    }

    async fn rounds(&self, name: &LockName, step: &Step) -> Result<Stepped, Error> {
        let (mut sent, mut pause, mut tries, mut doubtful) = (Vec::new(), FIRST_PAUSE, 0, false);
        // A holder knows its own last write, an operator has just read, and both save the read.
        let is_own = |view: &View| {
            let holder = view.record().and_then(|record| record.holder.as_ref());
            holder.is_some_and(|held| step.of_holder() == Some(held.owner))
        };
        let mut known = self.observed.last(name, self.env.now()).filter(is_own);
        loop {
            match self.round(name, step, known.take(), &mut sent, &mut doubtful).await {
                Ok(Some(stepped)) => return Ok(stepped),
                Ok(None) => {}
                Err(error) if sent.is_empty() && (!error.is_retryable() || tries == READ_TRIES) => {
                    return Err(error);
                }
                Err(error) if !error.is_retryable() => {
                    let message = "the store refuses to say what became of a write";
                    return Err(Error::new(ErrorKind::OutcomeUnknown, message).with_source(error));
                }
                Err(_) => {}
            }
            tries += 1;
            // Clients that were refused together do not come back together.
            self.env.sleep(jittered(&*self.env, pause)).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// One round. `None` if its write was refused.
    async fn round(
        &self,
        name: &LockName,
        step: &Step,
        known: Option<View>,
        sent: &mut Vec<Sent>,
        doubtful: &mut bool,
    ) -> Result<Option<Stepped>, Error> {
        let decided = |view: &View| {
            let nonce = Nonce::of(self.env.random());
            let draw = Draw { nonce, wall_micros: self.env.wall_micros() };
            decide(view.record(), view.is_over(), step, draw)
        };
        let write = known.and_then(|view| match decided(&view) {
            Decision::Write(record, answer) => Some((view, record, answer)),
            // A write on an old record fails. An answer from one may be wrong.
            Decision::Answer(_) => None,
        });
        let from_memory = write.is_some();
        let (view, record, answer) = match write {
            Some(write) => write,
            None => {
                let view = self.read(name).await?;
                let nonce = view.record().map(|record| &record.nonce);
                if let Some((_, answer)) = sent.iter().find(|(own, _)| Some(own) == nonce) {
                    return Ok(Some(Stepped { answer: *answer, view, doubtful: false }));
                }
                match decided(&view) {
                    Decision::Write(record, answer) => (view, record, answer),
                    Decision::Answer(answer) => {
                        return Ok(Some(Stepped { answer, view, doubtful: *doubtful }));
                    }
                }
            }
        };
        let bytes = encode(&record)?;
        sent.push((record.nonce.clone(), answer));
        let put = self.store.put_if(&keys::of(name), bytes, view.version()).await;
        // What this client remembered was out of date, as after a release by force.
        *doubtful |= !(from_memory && matches!(put, Ok(Put::Refused)));
        if put.as_ref().is_err_and(|error| !error.is_retryable()) {
            sent.pop();
        }
        let Put::Written(version) = put? else { return Ok(None) };
        let seen = Seen(Some((record, version)));
        let view = self.observed.look(name, seen, self.env.now());
        Ok(Some(Stepped { answer, view, doubtful: false }))
    }
}
