//! One batch on all nodes: each job is answered as soon as its own majority is certain.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use lock_core::{
    Env as _, Error, FencingToken, Grant, Instant, ReleaseOutcome, Request, SystemEnv,
};
use tokio::sync::oneshot;

use super::{
    jobs::{AttemptJob, Job, Jobs, ReleaseJob, decline},
    reply::BatchReply,
};
use crate::{
    protocol::{
        clock::may_vote,
        grant_votes::GrantVotes,
        token::{self, Token},
        vote::{Tally, Vote, tally},
    },
    quorum::{
        node::{NodeAnswer, micros},
        nodes::Quorum,
        round::Round,
    },
    scripts::{self, ScriptCall, free::Free},
    steps::{
        acquire::{Try, make_grant},
        free::{freed, undo},
        release::{ReleaseCount, was_held},
    },
};

/// The outcome of an attempt.
enum AttemptState {
    Open(AttemptJob),
    /// The attempt has the lock.
    Won(Request, Arc<GrantVotes>),
    /// The attempt failed, and what nodes gave it is taken back.
    Failed(Request),
}

struct ReleaseState {
    grant: Grant,
    held: Arc<GrantVotes>,
    /// `None` once the release is answered.
    answer: Option<oneshot::Sender<Result<ReleaseOutcome, Error>>>,
    count: ReleaseCount,
}

impl ReleaseState {
    fn new(ReleaseJob { grant, held, answer }: ReleaseJob) -> Self {
        Self { grant, held, answer: Some(answer), count: ReleaseCount::default() }
    }
}

struct Batch<'a> {
    quorum: &'a Arc<Quorum>,
    replies: Vec<BatchReply>,
    contacts: Vec<usize>,
    releases: Vec<ReleaseState>,
    attempts: Vec<AttemptState>,
    own: Shared,
}

/// The values that all attempts of a batch share.
#[derive(Clone, Copy)]
struct Shared {
    number: u64,
    sent: Instant,
    limit: Duration,
}

impl Shared {
    fn of<'r>(self, request: &'r Request) -> Try<'r> {
        let Self { number, sent, limit } = self;
        Try { request, number, sent, limit, queued: false, first: true }
    }
}

/// Releases that were repeated alone: job, node and answer.
type Extra = FuturesUnordered<BoxFuture<'static, (usize, usize, Result<NodeAnswer, Error>)>>;

/// Sends a batch, and answers its jobs.
pub(crate) async fn carry_out(quorum: &Arc<Quorum>, jobs: Vec<Job>) {
    let mut jobs = Jobs::sort(jobs);
    let clock = quorum.settings().ok().and_then(|_| quorum.clock());
    if clock.is_none() {
        jobs.attempts.drain(..).for_each(decline);
    }
    let count = [jobs.releases.len(), jobs.attempts.len()];
    if count == [0, 0] {
        return;
    }
    let sent = SystemEnv.now();
    let (number, limit) = (micros(sent), quorum.options.wait(jobs.longest_lease()));
    let call = batch_call(quorum, &jobs, number, clock.unwrap_or_default(), limit);
    let contacts = quorum.contacts();
    let mut round = Round::ask(quorum, &contacts, &call, limit);
    let mut replies: Vec<_> = quorum.nodes.iter().map(|_| BatchReply::Failed(false)).collect();
    for at in &contacts {
        replies[*at] = BatchReply::Pending;
    }
    let mut batch = Batch {
        quorum,
        replies,
        contacts,
        releases: jobs.releases.into_iter().map(ReleaseState::new).collect(),
        attempts: jobs.attempts.into_iter().map(AttemptState::Open).collect(),
        own: Shared { number, sent, limit },
    };
    batch.free_the_rest();
    let mut extra = Extra::new();
    while batch.is_open() {
        tokio::select! {
            biased;
            answer = round.next() => match answer {
                Some((at, answer)) => batch.add(at, BatchReply::of(answer, count), &extra),
                None if extra.is_empty() => break,
                None => {
                    while let Some((job, at, answer)) = extra.next().await {
                        batch.freed(job, at, was_held(answer));
                    }
                    break;
                }
            },
            Some((job, at, answer)) = extra.next(), if !extra.is_empty() => {
                batch.freed(job, at, was_held(answer));
            }
        }
        batch.decide(round.any_open());
    }
    batch.decide(false);
    batch.finish(round, extra);
}

/// The call of a batch whose attempts have this number, at this clock of the nodes.
fn batch_call(
    quorum: &Quorum,
    jobs: &Jobs,
    number: u64,
    clock: u64,
    limit: Duration,
) -> Arc<ScriptCall> {
    let batch = scripts::batch::Batch {
        bound: quorum.options.bound_micros(),
        late: quorum.late(clock, limit),
        clock,
        number,
        proposed: quorum.propose(clock),
    };
    batch.call(
        &quorum.nodes[0].server,
        jobs.releases.iter().map(|release| (&release.grant.name, release.grant.owner)),
        jobs.attempts.iter().map(|attempt| &attempt.request),
    )
}

impl Batch<'_> {
    fn is_open(&self) -> bool {
        self.releases.iter().any(|freeing| freeing.answer.is_some())
            || self.attempts.iter().any(|fate| matches!(fate, AttemptState::Open(_)))
    }

    /// Frees the lock, in the background, on nodes that were asked for it and that no call waits
    /// for now.
    fn free_the_rest(&self) {
        for freeing in &self.releases {
            for at in (0..self.replies.len()).filter(|at| !self.contacts.contains(at)) {
                if freeing.held.parts().nodes[at].asked {
                    freed(self.quorum, at, &freeing.grant, &freeing.held, None);
                }
            }
        }
    }

    /// If a job is settled, it treats the reply as a late one: other jobs of the batch may stay
    /// open for long.
    fn add(&mut self, at: usize, reply: BatchReply, extra: &Extra) {
        let first = self.releases.len();
        for (job, fate) in self.attempts.iter().enumerate() {
            fate.late_reply(self.quorum, self.own, at, first + job, Some(&reply));
        }
        self.replies[at] = reply;
        self.freed_by(at, extra);
    }

    /// Counts a node's replies to the releases. If a client waits for a name there, the node gets
    /// one more release, for this name alone.
    fn freed_by(&mut self, at: usize, extra: &Extra) {
        for job in 0..self.releases.len() {
            match self.replies[at].number(job) {
                Some(-1) => {
                    let (quorum, grant) = (Arc::clone(self.quorum), &self.releases[job].grant);
                    let server = &quorum.nodes[0].server;
                    let call = Free::default().call(server, &grant.name, grant.owner);
                    extra.push(Box::pin(async move { (job, at, quorum.put(at, &call).await) }));
                }
                held => self.freed(job, at, held.map(|held| held == 1)),
            }
        }
    }

    fn freed(&mut self, job: usize, at: usize, held: Option<bool>) {
        let freeing = &mut self.releases[job];
        freed(self.quorum, at, &freeing.grant, &freeing.held, held);
        if let Some(held) = held {
            freeing.count.add(held);
        }
        if let Some(outcome) = freeing.count.outcome(self.quorum.majority())
            && let Some(answer) = freeing.answer.take()
        {
            // The caller may have gone.
            answer.send(Ok(outcome)).ok();
        }
    }

    /// Settles the attempts whose result is certain. Settles all of them once no node will answer
    /// any more.
    fn decide(&mut self, open: bool) {
        let spans: Vec<_> = self.replies.iter().map(BatchReply::span).collect();
        let in_line = may_vote(&spans, self.quorum.options.bound_micros());
        let known = spans.iter().flatten().count();
        if open && known < self.quorum.majority() {
            return;
        }
        let first = self.releases.len();
        for at in 0..self.attempts.len() {
            if !matches!(self.attempts[at], AttemptState::Open(_)) {
                continue;
            }
            let votes = self.votes(first + at, &in_line, open);
            let token = match (tally(&votes), token::decide(&votes)) {
                (Tally::Won, Token::Agreed(number)) => FencingToken::new(number),
                (Tally::Undecided, _) if open => continue,
                _ => None,
            };
            self.settle(at, &votes, token);
        }
    }

    /// As for a single attempt: while nodes may still answer, a clock that seems off now may be in
    /// line later.
    fn votes(&self, job: usize, in_line: &[bool], open: bool) -> Vec<Vote> {
        let vote = |(at, reply): (usize, &BatchReply)| match reply {
            BatchReply::Pending if open => Vote::Open,
            BatchReply::Answer(numbers, _) if self.quorum.nodes[at].twin().is_none() => {
                match u64::try_from(numbers[job]) {
                    Ok(number) if number > 0 && in_line[at] => Vote::Ours(number),
                    Ok(number) if number > 0 && open => Vote::Open,
                    _ => Vote::No,
                }
            }
            _ => Vote::No,
        };
        self.replies.iter().enumerate().map(vote).collect()
    }

    fn settle(&mut self, at: usize, votes: &[Vote], token: Option<FencingToken>) {
        let job = self.releases.len() + at;
        let AttemptState::Open(attempt) = &self.attempts[at] else { return };
        let request = attempt.request.clone();
        let own = self.own.of(&request);
        let fate = match token {
            Some(token) => {
                let doubtful = |at: usize| matches!(self.replies[at], BatchReply::Failed(true));
                let asked = |at: usize| self.contacts.contains(&at);
                let (held, grant) = make_grant(self.quorum, &own, votes, doubtful, asked, token);
                let fate = AttemptState::Won(request.clone(), held);
                let AttemptState::Open(attempt) = std::mem::replace(&mut self.attempts[at], fate)
                else {
                    return;
                };
                match attempt.answer.send(Some(grant)) {
                    Ok(()) => return,
                    // The caller has gone, so nobody would hold the lock.
                    Err(_) => AttemptState::Failed(request.clone()),
                }
            }
            None => AttemptState::Failed(request.clone()),
        };
        for node in (0..self.replies.len()).filter(|node| self.replies[*node].gave(job)) {
            let doubtful = matches!(self.replies[node], BatchReply::Failed(_));
            undo(self.quorum, node, &request, self.own.number, doubtful);
        }
        if let AttemptState::Open(attempt) = std::mem::replace(&mut self.attempts[at], fate) {
            decline(attempt);
        }
    }

    /// Handles late replies in the background.
    fn finish(self, round: Round, mut extra: Extra) {
        let Self { quorum, mut releases, attempts, own, .. } = self;
        for freeing in &mut releases {
            if let Some(answer) = freeing.answer.take() {
                answer.send(Err(freeing.count.too_few(quorum))).ok();
            }
        }
        let jobs = [releases.len(), attempts.len()];
        let freeing = |freeing: ReleaseState| (freeing.grant, freeing.held);
        let grants: Vec<_> = releases.into_iter().map(freeing).collect();
        if !extra.is_empty() {
            let (kept, grants) = (Arc::clone(quorum), grants.clone());
            quorum.spawn_background(async move {
                while let Some((job, at, answer)) = extra.next().await {
                    let (grant, held) = &grants[job];
                    freed(&kept, at, grant, held, was_held(answer));
                }
            });
        }
        let kept = Arc::clone(quorum);
        round.finish(quorum, move |at, answer| {
            let reply = answer.map(|answer| BatchReply::of(answer, jobs));
            for (job, (grant, held)) in grants.iter().enumerate() {
                if let Some(reply) = &reply {
                    let answer = reply.number(job).filter(|held| *held >= 0);
                    freed(&kept, at, grant, held, answer.map(|held| held == 1));
                }
            }
            for (job, fate) in attempts.iter().enumerate() {
                fate.late_reply(&kept, own, at, grants.len() + job, reply.as_ref());
            }
        });
    }
}

impl AttemptState {
    /// Notes a node's late reply to a settled attempt, or that the node has not replied in time.
    fn late_reply(
        &self,
        quorum: &Arc<Quorum>,
        own: Shared,
        at: usize,
        job: usize,
        reply: Option<&BatchReply>,
    ) {
        let gave = reply.is_none_or(|reply| reply.gave(job));
        let known = matches!(reply, Some(BatchReply::Answer(..) | BatchReply::Failed(false)));
        let (request, unwanted) = match self {
            Self::Open(_) => return,
            Self::Won(request, held) => (request, held.late_reply(at, gave, known)),
            Self::Failed(request) => (request, gave),
        };
        if unwanted {
            undo(quorum, at, request, own.number, !known);
        }
    }
}
