//! One batch on all nodes: each job is answered as soon as its own majority is certain.

use std::{sync::Arc, time::Duration};

use backend_redis::node::{Value, not_understood, number};
use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use lock_core::{Env as _, Error, FencingToken, Grant, Instant, Outcome, Request, SystemEnv};
use tokio::sync::oneshot;

use super::jobs::{Attempt, Jobs, Release, decline};
use crate::{
    acquire::Try,
    clock::{Span, may_vote},
    held::Held,
    peer::{Answer, micros},
    quorum::Quorum,
    release::{Count, was_held},
    round::Round,
    token::{self, Token},
    vote::{Tally, Vote, tally},
};

/// What one node said to a batch.
enum Said {
    Nothing,
    /// It is not asked, or gave no answer; whether it may have been carried out there.
    Failed(bool),
    Answer(Vec<i64>, Option<Span>),
}

pub(crate) fn read(answer: &Answer, [releases, attempts]: [usize; 2]) -> Result<Vec<i64>, Error> {
    let all = match answer.part(2)? {
        Value::Array(parts) => parts,
        // All releases found their locks held, and all attempts have this number.
        one => {
            let mut numbers = vec![1; releases];
            numbers.resize(releases + attempts, number(one)? as i64);
            return Ok(numbers);
        }
    };
    let number = |value: &Value| match value {
        Value::Int(number) => Ok(*number),
        _ => Err(not_understood()),
    };
    let numbers: Vec<_> = all.iter().map(number).collect::<Result<_, _>>()?;
    if numbers.len() == releases + attempts { Ok(numbers) } else { Err(not_understood()) }
}

impl Said {
    fn of(answer: Result<Answer, Error>, jobs: [usize; 2]) -> Self {
        let read = answer.and_then(|answer| Ok((read(&answer, jobs)?, answer.span)));
        match read {
            Ok((numbers, span)) => Self::Answer(numbers, span),
            Err(error) => Self::Failed(error.is_ambiguous()),
        }
    }

    fn span(&self) -> Option<Span> {
        match self {
            Self::Answer(_, span) => *span,
            _ => None,
        }
    }

    fn number(&self, job: usize) -> Option<i64> {
        match self {
            Self::Answer(numbers, _) => Some(numbers[job]),
            _ => None,
        }
    }

    /// Whether it gave a lock, or may have.
    fn gave(&self, job: usize) -> bool {
        self.number(job).is_some_and(|number| number > 0) || matches!(self, Self::Failed(true))
    }
}

/// What has become of an attempt.
enum Fate {
    Open(Attempt),
    /// It has the lock.
    Won(Request, Arc<Held>),
    /// What it was given is taken back.
    Failed(Request),
}

struct Freeing {
    grant: Grant,
    held: Arc<Held>,
    /// `None` once it is answered.
    answer: Option<oneshot::Sender<Result<Outcome, Error>>>,
    count: Count,
}

impl Freeing {
    fn new(Release { grant, held, answer }: Release) -> Self {
        Self { grant, held, answer: Some(answer), count: Count::default() }
    }
}

struct Batch<'a> {
    quorum: &'a Arc<Quorum>,
    said: Vec<Said>,
    contacts: Vec<usize>,
    releases: Vec<Freeing>,
    attempts: Vec<Fate>,
    own: Own,
}

/// What all attempts of a batch have in common.
#[derive(Clone, Copy)]
struct Own {
    number: u64,
    sent: Instant,
    limit: Duration,
}

impl Own {
    fn of<'r>(self, request: &'r Request) -> Try<'r> {
        let Self { number, sent, limit } = self;
        Try { request, number, sent, limit, placed: false, first: true }
    }
}

/// Releases asked for once more, by themselves: job, node and answer.
type Extra = FuturesUnordered<BoxFuture<'static, (usize, usize, Result<Answer, Error>)>>;

impl Quorum {
    pub(crate) async fn carry_out(self: &Arc<Self>, jobs: Vec<super::Job>) {
        let mut jobs = Jobs::sort(jobs);
        let clock = self.settings().ok().and_then(|_| self.clock());
        if clock.is_none() {
            jobs.attempts.drain(..).for_each(decline);
        }
        let count = [jobs.releases.len(), jobs.attempts.len()];
        if count == [0, 0] {
            return;
        }
        let sent = SystemEnv.now();
        let (number, limit) = (micros(sent), self.options.wait(jobs.longest_lease()));
        let call = self.batch_call(&jobs, number, clock.unwrap_or_default(), limit);
        let contacts = self.contacts();
        let mut round = self.ask(&contacts, &call, limit);
        let mut said: Vec<_> = self.peers.iter().map(|_| Said::Failed(false)).collect();
        for at in &contacts {
            said[*at] = Said::Nothing;
        }
        let mut batch = Batch {
            quorum: self,
            said,
            contacts,
            releases: jobs.releases.into_iter().map(Freeing::new).collect(),
            attempts: jobs.attempts.into_iter().map(Fate::Open).collect(),
            own: Own { number, sent, limit },
        };
        batch.free_the_rest();
        let mut extra = Extra::new();
        while batch.is_open() {
            tokio::select! {
                biased;
                answer = round.next() => match answer {
                    Some((at, answer)) => batch.hear(at, Said::of(answer, count), &extra),
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
}

impl Batch<'_> {
    fn is_open(&self) -> bool {
        self.releases.iter().any(|freeing| freeing.answer.is_some())
            || self.attempts.iter().any(|fate| matches!(fate, Fate::Open(_)))
    }

    /// Frees nodes behind that were asked for the lock and are not waited for now.
    fn free_the_rest(&self) {
        for freeing in &self.releases {
            for at in (0..self.said.len()).filter(|at| !self.contacts.contains(at)) {
                if freeing.held.parts().nodes[at].asked {
                    self.quorum.freed(at, &freeing.grant, &freeing.held, None);
                }
            }
        }
    }

    /// What is settled already hears of it as of a straggler: others in the batch may be open for long.
    fn hear(&mut self, at: usize, said: Said, extra: &Extra) {
        let first = self.releases.len();
        for (job, fate) in self.attempts.iter().enumerate() {
            fate.straggler(self.quorum, self.own, at, first + job, Some(&said));
        }
        self.said[at] = said;
        self.freed_by(at, extra);
    }

    /// Counts what a node said to the releases. Where somebody waits it is asked once more, by itself.
    fn freed_by(&mut self, at: usize, extra: &Extra) {
        for job in 0..self.releases.len() {
            match self.said[at].number(job) {
                Some(-1) => {
                    let (quorum, grant) = (Arc::clone(self.quorum), &self.releases[job].grant);
                    let call = quorum.freeing(&grant.name, grant.owner, ["", "", "", ""]);
                    extra.push(Box::pin(async move { (job, at, quorum.put(at, &call).await) }));
                }
                held => self.freed(job, at, held.map(|held| held == 1)),
            }
        }
    }

    fn freed(&mut self, job: usize, at: usize, held: Option<bool>) {
        let freeing = &mut self.releases[job];
        self.quorum.freed(at, &freeing.grant, &freeing.held, held);
        if let Some(held) = held {
            freeing.count.add(held);
        }
        if let Some(outcome) = freeing.count.outcome(self.quorum.majority())
            && let Some(answer) = freeing.answer.take()
        {
            // Nobody may wait any more.
            answer.send(Ok(outcome)).ok();
        }
    }

    /// Settles the attempts that are certain; all of them once nobody answers any more.
    fn decide(&mut self, open: bool) {
        let spans: Vec<_> = self.said.iter().map(Said::span).collect();
        let in_line = may_vote(&spans, self.quorum.options.bound_micros());
        let heard = spans.iter().flatten().count();
        if open && heard < self.quorum.majority() {
            return;
        }
        let first = self.releases.len();
        for at in 0..self.attempts.len() {
            if !matches!(self.attempts[at], Fate::Open(_)) {
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

    /// As for one attempt: while a node is open, a clock that is off now may be in line later.
    fn votes(&self, job: usize, in_line: &[bool], open: bool) -> Vec<Vote> {
        let vote = |(at, said): (usize, &Said)| match said {
            Said::Nothing if open => Vote::Open,
            Said::Answer(numbers, _) if self.quorum.peers[at].twin().is_none() => {
                match u64::try_from(numbers[job]) {
                    Ok(number) if number > 0 && in_line[at] => Vote::Ours(number),
                    Ok(number) if number > 0 && open => Vote::Open,
                    _ => Vote::No,
                }
            }
            _ => Vote::No,
        };
        self.said.iter().enumerate().map(vote).collect()
    }

    fn settle(&mut self, at: usize, votes: &[Vote], token: Option<FencingToken>) {
        let job = self.releases.len() + at;
        let Fate::Open(attempt) = &self.attempts[at] else { return };
        let request = attempt.request.clone();
        let own = self.own.of(&request);
        let fate = match token {
            Some(token) => {
                let doubtful = |at: usize| matches!(self.said[at], Said::Failed(true));
                let asked = |at: usize| self.contacts.contains(&at);
                let (held, grant) = self.quorum.made(&own, votes, doubtful, asked, token);
                let fate = Fate::Won(request.clone(), held);
                let Fate::Open(attempt) = std::mem::replace(&mut self.attempts[at], fate) else {
                    return;
                };
                match attempt.answer.send(Some(grant)) {
                    Ok(()) => return,
                    // Nobody is there to hold it.
                    Err(_) => Fate::Failed(request.clone()),
                }
            }
            None => Fate::Failed(request.clone()),
        };
        for node in (0..self.said.len()).filter(|node| self.said[*node].gave(job)) {
            let bury = matches!(self.said[node], Said::Failed(_));
            self.quorum.undo(node, &request.name, request.owner, &self.own.of(&request), bury);
        }
        if let Fate::Open(attempt) = std::mem::replace(&mut self.attempts[at], fate) {
            decline(attempt);
        }
    }

    /// Lets the stragglers finish behind.
    fn finish(self, round: Round, mut extra: Extra) {
        let Self { quorum, mut releases, attempts, own, said, .. } = self;
        for freeing in &mut releases {
            if let Some(answer) = freeing.answer.take() {
                answer.send(Err(quorum.too_few_freed(&freeing.count))).ok();
            }
        }
        let jobs = [releases.len(), attempts.len()];
        drop(said);
        let freeing = |freeing: Freeing| (freeing.grant, freeing.held);
        let grants: Vec<_> = releases.into_iter().map(freeing).collect();
        if !extra.is_empty() {
            let (behind, grants) = (Arc::clone(quorum), grants.clone());
            quorum.behind(async move {
                while let Some((job, at, answer)) = extra.next().await {
                    let (grant, held) = &grants[job];
                    behind.freed(at, grant, held, was_held(answer));
                }
            });
        }
        let behind = Arc::clone(quorum);
        round.finish(quorum, move |at, answer| {
            let said = answer.map(|answer| Said::of(answer, jobs));
            for (job, (grant, held)) in grants.iter().enumerate() {
                if let Some(said) = &said {
                    let answer = said.number(job).filter(|held| *held >= 0);
                    behind.freed(at, grant, held, answer.map(|held| held == 1));
                }
            }
            for (job, fate) in attempts.iter().enumerate() {
                fate.straggler(&behind, own, at, grants.len() + job, said.as_ref());
            }
        });
    }
}

impl Fate {
    /// Hears of a node when the attempt is settled: nothing yet at the end of the time, or its answer.
    fn straggler(
        &self,
        quorum: &Arc<Quorum>,
        own: Own,
        at: usize,
        job: usize,
        said: Option<&Said>,
    ) {
        let gave = said.is_none_or(|said| said.gave(job));
        let known = matches!(said, Some(Said::Answer(..) | Said::Failed(false)));
        let (request, unwanted) = match self {
            Self::Open(_) => return,
            Self::Won(request, held) => (request, held.straggler(at, gave, known)),
            Self::Failed(request) => (request, gave),
        };
        if unwanted {
            quorum.undo(at, &request.name, request.owner, &own.of(request), !known);
        }
    }
}
