//! Release, on all nodes, also on those that never answered the attempt.

use std::{sync::Arc, time::Duration};

use lock_core::{Error, ErrorKind, Grant, LockName, ReleaseOutcome, Request};

use super::free::free_in_background;
use crate::{
    protocol::grant_votes::GrantVotes,
    quorum::{node::NodeAnswer, nodes::Quorum, round::Round},
    scripts::{
        ScriptCall,
        free::{EVERY_ATTEMPT, Free, force},
    },
};

/// The nodes' answers to a release.
#[derive(Default)]
pub(crate) struct ReleaseCount {
    held: usize,
    not_held: usize,
}

impl ReleaseCount {
    pub(crate) fn add(&mut self, held: bool) {
        if held {
            self.held += 1;
        } else {
            self.not_held += 1;
        }
    }

    pub(crate) fn outcome(&self, majority: usize) -> Option<ReleaseOutcome> {
        if self.held >= majority {
            Some(ReleaseOutcome::Released)
        } else if self.not_held >= majority {
            Some(ReleaseOutcome::NotHeld)
        } else {
            None
        }
    }

    /// Neither answer has a majority.
    pub(crate) fn too_few(&self, quorum: &Quorum) -> Error {
        let message = format!(
            "{} of {} nodes answered, and {} with the same answer are needed",
            self.held + self.not_held,
            quorum.nodes.len(),
            quorum.majority()
        );
        Error::new(ErrorKind::OutcomeUnknown, message)
    }
}

/// Whether a node held the lock. `None` if it does not say.
pub(crate) fn was_held(answer: Result<NodeAnswer, Error>) -> Option<bool> {
    Some(answer.and_then(|answer| answer.number(2)).ok()? == 1)
}

/// Whether a node refuses this client, for example because its records have another version. The
/// client does not ask such a node again: that might free what another owner took meanwhile.
fn is_refused(answer: &Result<NodeAnswer, Error>) -> bool {
    matches!(answer, Err(error) if error.kind() == ErrorKind::Config)
}

/// Releases a grant, or keeps it for a last while.
pub(crate) async fn release(
    quorum: &Arc<Quorum>,
    grant: &Grant,
    keep: Option<Duration>,
) -> Result<ReleaseOutcome, Error> {
    let (held, server) = (GrantVotes::of(grant), &quorum.nodes[0].server);
    let free = Free { keep, ..Free::default() };
    let call = free.call(server, &grant.name, grant.owner);
    let limit = quorum.options.wait(grant.lease);
    let doubtful = |at: usize| held.as_ref().is_some_and(|held| held.parts().nodes[at].doubtful);
    // If the attempt may still arrive, the release leaves a tombstone, and removes an entry that a
    // lost attempt may have made.
    let with_tombstone = held.as_ref().map(|held| {
        let free = Free { tombstone: Some(held.attempt), leave_queue: true, ..free };
        free.call(server, &grant.name, grant.owner)
    });
    let calls = |at: usize| match &with_tombstone {
        Some(call) if doubtful(at) => call,
        _ => &call,
    };
    let contacts = quorum.contacts();
    // A node that the attempt never asked has nothing to release.
    let asked = |at: usize| held.as_ref().is_none_or(|held| held.parts().nodes[at].asked);
    let again = {
        let held = held.clone();
        move |at: usize, answer: Option<bool>| {
            held.as_ref().map_or(answer.is_none(), |held| held.freed(at, answer))
        }
    };
    for at in (0..quorum.nodes.len()).filter(|at| !contacts.contains(at) && asked(*at)) {
        again(at, None);
        free_in_background(quorum, at, Arc::clone(calls(at)), grant.lease);
    }
    let mut round = Round::ask_each(quorum, &contacts, |at| Arc::clone(calls(at)), limit);
    let mut count = ReleaseCount::default();
    let outcome = loop {
        if let Some(outcome) = count.outcome(quorum.majority()) {
            break Some(outcome);
        }
        let Some((at, answer)) = round.next().await else { break None };
        let answer = was_held(answer);
        if let Some(held) = answer {
            count.add(held);
        }
        if again(at, answer) {
            free_in_background(quorum, at, Arc::clone(calls(at)), grant.lease);
        }
    };
    let calls: Vec<_> = (0..quorum.nodes.len()).map(|at| Arc::clone(calls(at))).collect();
    let (own, lease) = (Arc::clone(quorum), grant.lease);
    round.finish(quorum, move |at, answer| {
        if answer.is_some_and(|answer| again(at, was_held(answer))) {
            free_in_background(&own, at, Arc::clone(&calls[at]), lease);
        }
    });
    outcome.ok_or_else(|| count.too_few(quorum))
}

/// Makes sure that an owner has nothing on a majority of the nodes, and never will. On the other
/// nodes this happens in the background, as soon as they answer.
pub(crate) async fn abandon(quorum: &Arc<Quorum>, request: &Request) -> Result<(), Error> {
    // What is left of a lost grant is freed later.
    let up_to = quorum.retained.has(request.owner).then_some(0);
    let free = Free { up_to, tombstone: Some(EVERY_ATTEMPT), leave_queue: true, keep: None };
    let call = free.call(&quorum.nodes[0].server, &request.name, request.owner);
    on_a_majority(quorum, &call, request.lease).await.map(drop)
}

/// Frees a name of any holder on a majority of the nodes.
pub(crate) async fn force_release(
    quorum: &Arc<Quorum>,
    name: &LockName,
) -> Result<ReleaseOutcome, Error> {
    let call = force(&quorum.nodes[0].server, name);
    let freed = on_a_majority(quorum, &call, quorum.promised().longest_lease).await?;
    Ok(if freed > 0 { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld })
}

/// Sends a call that frees something to all nodes. Returns how many of the first majority had
/// something.
async fn on_a_majority(
    quorum: &Arc<Quorum>,
    call: &Arc<ScriptCall>,
    lease: Duration,
) -> Result<usize, Error> {
    let contacts = quorum.contacts();
    for at in (0..quorum.nodes.len()).filter(|at| !contacts.contains(at)) {
        free_in_background(quorum, at, Arc::clone(call), lease);
    }
    let mut round = Round::ask(quorum, &contacts, call, quorum.options.wait(lease));
    let (mut answered, mut freed, mut refusal) = (0, 0, None);
    while answered < quorum.majority() {
        let Some((at, answer)) = round.next().await else { break };
        if is_refused(&answer) {
            refusal = answer.err();
            continue;
        }
        match was_held(answer) {
            Some(held) => {
                answered += 1;
                freed += usize::from(held);
            }
            None => free_in_background(quorum, at, Arc::clone(call), lease),
        }
    }
    let (own, again) = (Arc::clone(quorum), Arc::clone(call));
    round.finish(quorum, move |at, answer| {
        if answer.is_some_and(|answer| !is_refused(&answer) && was_held(answer).is_none()) {
            free_in_background(&own, at, Arc::clone(&again), lease);
        }
    });
    if answered >= quorum.majority() {
        return Ok(freed);
    }
    if refusal.is_some() {
        return Err(quorum.too_few(answered, refusal));
    }
    let message = format!(
        "{answered} of {} nodes answered, and {} are needed",
        quorum.nodes.len(),
        quorum.majority()
    );
    Err(Error::new(ErrorKind::OutcomeUnknown, message))
}
