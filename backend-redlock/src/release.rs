//! Giving back: on all nodes, also on those that never answered.

use std::{sync::Arc, time::Duration};

use lock_core::{
    Env as _, Error, ErrorKind, FencingToken, Grant, LockName, Outcome, OwnerId, Request,
    SystemEnv, jittered,
};

use crate::{
    acquire::millis,
    held::Held,
    peer::Answer,
    quorum::{Call, Quorum},
    scripts,
};

/// How long an abandoned owner is remembered.
const TOMBSTONE: Duration = Duration::from_secs(60);
/// Higher than the number of any attempt.
const EVERY_ATTEMPT: &str = "9007199254740991";

/// What the nodes said to a release.
#[derive(Default)]
pub(crate) struct Count {
    held: usize,
    not_held: usize,
}

impl Count {
    pub(crate) fn add(&mut self, held: bool) {
        if held {
            self.held += 1;
        } else {
            self.not_held += 1;
        }
    }

    pub(crate) fn outcome(&self, majority: usize) -> Option<Outcome> {
        if self.held >= majority {
            Some(Outcome::Released)
        } else if self.not_held >= majority {
            Some(Outcome::NotHeld)
        } else {
            None
        }
    }
}

/// Whether a node held the lock; `None` where it does not say.
pub(crate) fn was_held(answer: Result<Answer, Error>) -> Option<bool> {
    Some(answer.and_then(|answer| answer.number(2)).ok()? == 1)
}

impl Quorum {
    /// A call of `free.lua`; `how`: ms to keep it, last attempt meant, last attempt to bury, place.
    pub(crate) fn freeing(&self, name: &LockName, owner: OwnerId, how: [&str; 4]) -> Arc<Call> {
        let mut arguments = vec![owner.to_string()];
        arguments.extend(how.iter().map(|word| (*word).to_owned()));
        arguments.push(millis(TOMBSTONE));
        Call::plain(&scripts::FREE, self.peers[0].node.keys(name, owner), arguments)
    }

    /// Repeats a call on one node until it is answered, or `limit` is over and with it the lease.
    pub(crate) fn free_behind(self: &Arc<Self>, at: usize, call: Arc<Call>, limit: Duration) {
        let quorum = Arc::clone(self);
        self.behind(async move {
            let end = SystemEnv.now() + limit;
            let mut pause = Duration::from_millis(10);
            while quorum.put(at, &call).await.is_err() {
                if SystemEnv.now() >= end || quorum.is_closing() {
                    return;
                }
                tokio::time::sleep(jittered(&SystemEnv, pause)).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
        });
    }

    /// Frees what a node has of a grant behind.
    pub(crate) fn free_later(self: &Arc<Self>, at: usize, grant: &Grant) {
        let call = self.freeing(&grant.name, grant.owner, ["", "", "", ""]);
        self.free_behind(at, call, grant.lease);
    }

    /// Hears what a node said to the release of a grant, or that this will not be heard.
    pub(crate) fn freed(
        self: &Arc<Self>,
        at: usize,
        grant: &Grant,
        held: &Held,
        said: Option<bool>,
    ) {
        if held.freed(at, said) {
            self.free_later(at, grant);
        }
    }

    /// Frees behind what nodes gave to the attempt of a grant, or may yet give, and nothing that a later
    /// attempt of the same owner was given.
    pub(crate) fn take_back(self: &Arc<Self>, grant: &Grant) {
        let number = Held::of(grant).map_or(0, |held| held.attempt).to_string();
        let call = self.freeing(&grant.name, grant.owner, ["", &number, &number, ""]);
        for at in 0..self.peers.len() {
            self.free_behind(at, Arc::clone(&call), grant.lease);
        }
    }

    /// Releases a grant, or keeps it for a last while; with what the next attempt of this process was
    /// given right behind.
    pub(crate) async fn release(
        self: &Arc<Self>,
        grant: &Grant,
        keep: Option<Duration>,
        next: Option<&Request>,
    ) -> Result<(Outcome, Option<Grant>), Error> {
        let keep = keep.map(millis).unwrap_or_default();
        // Where the attempt may yet be carried out, the release leaves a tombstone, and a place that a
        // lost attempt may have taken goes with it.
        let held = Held::of(grant);
        let mut plain = keep.is_empty();
        if let Some(held) = &held {
            let mut parts = held.parts();
            parts.released = true;
            plain &= parts.nodes.iter().all(|part| !part.doubtful);
        }
        let next = next.filter(|next| next.floor == FencingToken::ZERO);
        let alone = if plain && next.is_none() { self.gathering.alone() } else { None };
        if plain
            && alone.is_none()
            && let Some(held) = held
        {
            return self.gather_release(grant, held, next).await;
        }
        let call = self.freeing(&grant.name, grant.owner, [&keep, "", "", ""]);
        let limit = self.options.wait(grant.lease);
        let doubtful =
            |at: usize| held.as_ref().is_some_and(|held| held.parts().nodes[at].doubtful);
        let burying = held.as_ref().map(|held| {
            let number = held.attempt.to_string();
            self.freeing(&grant.name, grant.owner, [&keep, "", &number, "1"])
        });
        let calls = |at: usize| match &burying {
            Some(burying) if doubtful(at) => burying,
            _ => &call,
        };
        let contacts = self.contacts();
        // Whom the attempt never asked has nothing to give back.
        let asked = |at: usize| held.as_ref().is_none_or(|held| held.parts().nodes[at].asked);
        let again = {
            let held = held.clone();
            move |at: usize, answer: Option<bool>| {
                held.as_ref().map_or(answer.is_none(), |held| held.freed(at, answer))
            }
        };
        for at in (0..self.peers.len()).filter(|at| !contacts.contains(at) && asked(*at)) {
            again(at, None);
            self.free_behind(at, Arc::clone(calls(at)), grant.lease);
        }
        let mut round = self.ask_each(&contacts, |at| Arc::clone(calls(at)), limit);
        let mut count = Count::default();
        let outcome = loop {
            if let Some(outcome) = count.outcome(self.majority()) {
                break Some(outcome);
            }
            let Some((at, answer)) = round.next().await else { break None };
            let answer = was_held(answer);
            if let Some(held) = answer {
                count.add(held);
            }
            if again(at, answer) {
                self.free_behind(at, Arc::clone(calls(at)), grant.lease);
            }
        };
        let calls: Vec<_> = (0..self.peers.len()).map(|at| Arc::clone(calls(at))).collect();
        let (quorum, lease) = (Arc::clone(self), grant.lease);
        round.finish(self, move |at, answer| {
            if answer.is_some_and(|answer| again(at, was_held(answer))) {
                quorum.free_behind(at, Arc::clone(&calls[at]), lease);
            }
        });
        outcome.map(|outcome| (outcome, None)).ok_or_else(|| self.too_few_freed(&count))
    }

    pub(crate) fn too_few_freed(&self, count: &Count) -> Error {
        let message = format!(
            "{} of {} nodes answered, and {} with the same answer are needed",
            count.held + count.not_held,
            self.peers.len(),
            self.majority()
        );
        Error::new(ErrorKind::OutcomeUnknown, message)
    }

    /// Makes sure that an owner has nothing on a majority of the nodes and never will; on the others
    /// behind, as soon as they answer.
    pub(crate) async fn abandon(self: &Arc<Self>, request: &Request) -> Result<(), Error> {
        // What a lost grant has left goes later; no record is older than attempt 0.
        let meant = if self.spared.has(request.owner) { "0" } else { "" };
        let call = self.freeing(&request.name, request.owner, ["", meant, EVERY_ATTEMPT, "1"]);
        self.on_a_majority(&call, request.lease).await.map(drop)
    }

    /// Frees a name on a majority of the nodes whoever holds it.
    pub(crate) async fn force(self: &Arc<Self>, name: &LockName) -> Result<Outcome, Error> {
        let keys = self.peers[0].node.keys(name, OwnerId::from_bits(0));
        let mut arguments = vec![String::new(); 5];
        arguments.push(millis(TOMBSTONE));
        let call = Call::plain(&scripts::FREE, keys, arguments);
        let freed = self.on_a_majority(&call, self.promised().longest_lease).await?;
        Ok(if freed > 0 { Outcome::Released } else { Outcome::NotHeld })
    }

    /// Runs a call of `free.lua` on all nodes; how many of the majority that answered first had
    /// something.
    async fn on_a_majority(
        self: &Arc<Self>,
        call: &Arc<Call>,
        lease: Duration,
    ) -> Result<usize, Error> {
        let contacts = self.contacts();
        for at in (0..self.peers.len()).filter(|at| !contacts.contains(at)) {
            self.free_behind(at, Arc::clone(call), lease);
        }
        let mut round = self.ask(&contacts, call, self.options.wait(lease));
        let (mut answered, mut freed) = (0, 0);
        while answered < self.majority() {
            let Some((at, answer)) = round.next().await else { break };
            match was_held(answer) {
                Some(held) => {
                    answered += 1;
                    freed += usize::from(held);
                }
                None => self.free_behind(at, Arc::clone(call), lease),
            }
        }
        let (quorum, again) = (Arc::clone(self), Arc::clone(call));
        round.finish(self, move |at, answer| {
            if answer.is_some_and(|answer| was_held(answer).is_none()) {
                quorum.free_behind(at, Arc::clone(&again), lease);
            }
        });
        if answered >= self.majority() {
            return Ok(freed);
        }
        let message = format!(
            "{answered} of {} nodes answered, and {} are needed",
            self.peers.len(),
            self.majority()
        );
        Err(Error::new(ErrorKind::OutcomeUnknown, message))
    }
}
