//! One attempt: the votes, the token, and the clean-up of nodes that answer late.

use std::{sync::Arc, time::Duration};

use lock_core::{
    Attempt, Env as _, Error, ErrorKind, FencingToken, Grant, Instant, Request, SystemEnv,
};

use super::{
    free::{leave_queues, undo},
    vote_record::{NodeReply, Verdict, VoteRecord},
};
use crate::{
    protocol::{
        grant_votes::{GrantVotes, Part},
        token::{self, Token},
        vote::{Tally, Vote, tally},
    },
    quorum::{node::micros, nodes::Quorum, pushes::QueueEntry, round::Round},
    scripts::{ScriptCall, acquire::Acquire, write::write},
    tunables::{SPLIT_DOUBLINGS, SPLIT_PAUSE, TRIES},
};

/// One try of an attempt. No two tries of one owner have the same number.
#[derive(Clone, Copy)]
pub(crate) struct Try<'a> {
    pub(crate) request: &'a Request,
    pub(crate) number: u64,
    pub(crate) sent: Instant,
    pub(crate) limit: Duration,
    /// Whether it joins the queues if the lock is held.
    pub(crate) queued: bool,
    /// Whether it is the first try of its owner.
    pub(crate) first: bool,
}

/// Makes one attempt. If `entry` is given, it may join the queues. `first`: the owner has made no
/// attempt before.
pub(crate) async fn attempt(
    quorum: &Arc<Quorum>,
    request: &Request,
    entry: Option<&QueueEntry>,
    first: bool,
) -> Result<Attempt, Error> {
    for tried in 1.. {
        match try_once(quorum, request, entry, first && tried == 1).await? {
            Verdict::Granted(grant) => return Ok(Attempt::Granted(grant)),
            Verdict::Busy(busy) => return Ok(Attempt::Busy(busy)),
            Verdict::Quarantined(quarantined) => return Ok(Attempt::Quarantined(quarantined)),
            Verdict::Error(error) => return Err(error),
            Verdict::Split(busy) if tried == TRIES => return Ok(Attempt::Busy(busy)),
            Verdict::Clocks(error) if tried == TRIES => return Err(error),
            Verdict::Split(_) => {
                tracing::trace!(target: "leasehold", name = request.name.as_str(), tried, "the votes were split");
            }
            Verdict::Clocks(error) => {
                tracing::trace!(target: "leasehold", name = request.name.as_str(), tried, %error, "asked again");
            }
        }
        // The pause is random: the first client to come back finds all votes free, and nodes that
        // answer faster.
        let most = SPLIT_PAUSE * (1 << (tried - 1).min(SPLIT_DOUBLINGS));
        let pause = Duration::from_micros(SystemEnv.random() as u64 % most.as_micros() as u64);
        tokio::time::sleep(pause).await;
    }
    Err(backend_redis::node::not_understood())
}

async fn try_once(
    quorum: &Arc<Quorum>,
    request: &Request,
    entry: Option<&QueueEntry>,
    first: bool,
) -> Result<Verdict, Error> {
    quorum.settings()?;
    let limit = quorum.options.wait(request.lease);
    let unknown = || Error::new(ErrorKind::Unavailable, "no node's clock is known yet");
    let clock = quorum.clock().ok_or_else(unknown)?;
    let sent = SystemEnv.now();
    let attempt =
        Try { request, number: micros(sent), sent, limit, queued: entry.is_some(), first };
    let contacts = quorum.contacts();
    let call = vote_call(quorum, &attempt, clock, entry);
    let mut round = Round::ask(quorum, &contacts, &call, limit);
    let mut record = VoteRecord::new(&quorum.nodes, quorum.options.clock_bound, &contacts);
    let decided = loop {
        let votes = record.votes();
        match tally(&votes) {
            Tally::Failed if record.is_clear() => break None,
            Tally::Failed => {}
            Tally::Won => {
                // A repeat must find the token that was agreed on before, if there was one.
                let token = token::decide(&votes);
                let agreed = matches!(token, Token::Agreed(_));
                if agreed || !record.repeated() || !round.any_open() {
                    break Some(token);
                }
            }
            Tally::Undecided => {}
        }
        match round.next().await {
            Some((at, answer)) => record.add(at, answer),
            None => {
                let why = format!("no answer within {}", humantime::format_duration(limit));
                for at in round.silent() {
                    record.replies[*at] = NodeReply::Silent(why.clone());
                }
            }
        }
    };
    if let Some(entry) = entry {
        let asked = contacts.iter().copied();
        entry.may_be_given_by(asked.filter(|at| record.may_have_queued(*at)));
    }
    let token = match &decided {
        Some(Token::Agreed(number)) => Some(*number),
        Some(Token::WriteBack { number, nodes, needed }) => {
            let waiting = (&mut round, &mut record);
            let done = write_back(quorum, &attempt, *number, nodes, *needed, waiting).await;
            done.then_some(*number)
        }
        _ => None,
    };
    if let Some(token) = token.and_then(FencingToken::new) {
        if let Some(entry) = entry {
            // If the owner did not get the lock there, its entry would block the next waiter.
            let mut given = entry.given();
            given.retain(|at| !record.gave(*at) && !round.is_open(*at));
            leave_queues(quorum, request, given);
        }
        return Ok(Verdict::Granted(won(quorum, &attempt, &record, round, &contacts, token)));
    }
    let verdict = if decided.is_some() {
        let message = "the token could not be written to a majority of the nodes";
        Verdict::Clocks(Error::new(ErrorKind::Unavailable, message))
    } else {
        record.verdict()
    };
    failed(quorum, &attempt, &record, round);
    Ok(verdict)
}

fn vote_call(
    quorum: &Quorum,
    attempt: &Try<'_>,
    clock: u64,
    entry: Option<&QueueEntry>,
) -> Arc<ScriptCall> {
    let acquire = Acquire {
        request: attempt.request,
        proposed: quorum.propose(clock),
        bound: quorum.options.bound_micros(),
        number: attempt.number,
        late: quorum.late(clock, attempt.limit),
        clock,
        entry: entry.map(|entry| (entry.channel.as_str(), entry.rank)),
    };
    acquire.call(&quorum.nodes[0].server)
}

/// Writes the largest number back, only to nodes whose vote was counted. A node accepts it only
/// while it keeps the lock for us.
async fn write_back(
    quorum: &Arc<Quorum>,
    attempt: &Try<'_>,
    number: u64,
    nodes: &[usize],
    needed: usize,
    (asked, record): (&mut Round, &mut VoteRecord<'_>),
) -> bool {
    let Request { name, owner, .. } = attempt.request;
    let call = write(&quorum.nodes[0].server, name, *owner, number, None);
    let mut round = Round::ask(quorum, nodes, &call, attempt.limit);
    let mut taken = 0;
    while taken < needed {
        tokio::select! {
            biased;
            written = round.next() => match written {
                Some((_, Ok(answer))) if answer.word == "written" => {
                    taken += usize::from(answer.number(2).ok() == Some(1));
                }
                Some(_) => {}
                None => break,
            },
            // A call that is not polled could hold up the connection's queue for all.
            Some((at, answer)) = asked.next(), if asked.any_open() => record.add(at, answer),
        }
    }
    round.finish(quorum, |_, _| {});
    taken >= needed
}

fn won(
    quorum: &Arc<Quorum>,
    attempt: &Try<'_>,
    record: &VoteRecord<'_>,
    round: Round,
    contacts: &[usize],
    token: FencingToken,
) -> Grant {
    let (doubtful, asked) = (|at| record.doubtful(at), |at: usize| contacts.contains(&at));
    let (held, grant) = make_grant(quorum, attempt, &record.votes(), doubtful, asked, token);
    let (own, request) = (Arc::clone(quorum), attempt.request.clone());
    let Try { number, queued, .. } = *attempt;
    round.finish(quorum, move |at, answer| {
        let given = matches!(&answer, Some(Ok(answer)) if answer.word == "ours");
        let known = matches!(&answer, Some(Ok(_)))
            || matches!(&answer, Some(Err(error)) if !error.is_ambiguous());
        if held.late_reply(at, given || !known, known) {
            undo(&own, at, &request, number, !known);
        } else if queued && !given {
            leave_queues(&own, &request, [at]);
        }
    });
    grant
}

/// Makes a grant, with what the client remembers of it: for each node, whether it may have given
/// the lock without an answer, and whether it was asked.
pub(crate) fn make_grant(
    quorum: &Quorum,
    attempt: &Try<'_>,
    votes: &[Vote],
    doubtful: impl Fn(usize) -> bool,
    asked: impl Fn(usize) -> bool,
    token: FencingToken,
) -> (Arc<GrantVotes>, Grant) {
    let until = attempt.sent + attempt.request.lease;
    let ours = |at: usize| matches!(votes[at], Vote::Ours(_)).then_some(until);
    let part = |at: usize| Part::new(ours(at), doubtful(at), asked(at));
    let nodes = (0..quorum.nodes.len()).map(part).collect();
    let held = Arc::new(GrantVotes::new(attempt.number, attempt.first, nodes, until));
    let state: Arc<GrantVotes> = Arc::clone(&held);
    let mut grant =
        Grant::new(attempt.request, token).with_mode(attempt.request.mode).with_state(state);
    grant.margin = quorum.options.margin();
    (held, grant)
}

/// Takes back what nodes gave to a failed attempt, also from nodes that answer late or never.
fn failed(quorum: &Arc<Quorum>, attempt: &Try<'_>, record: &VoteRecord<'_>, round: Round) {
    for at in 0..quorum.nodes.len() {
        if record.gave(at) || record.doubtful(at) {
            undo(quorum, at, attempt.request, attempt.number, record.doubtful(at));
        }
    }
    let (own, request, number) = (Arc::clone(quorum), attempt.request.clone(), attempt.number);
    round.finish(quorum, move |at, answer| {
        let doubtful = match answer {
            Some(Ok(answer)) if answer.word == "ours" => false,
            Some(Err(error)) if error.is_ambiguous() => true,
            // At once, on the connection that may still carry the attempt.
            None => true,
            Some(_) => return,
        };
        undo(&own, at, &request, number, doubtful);
    });
}
