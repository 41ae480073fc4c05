//! One attempt: votes, the token, and what becomes of who was late.

use std::{sync::Arc, time::Duration};

use lock_core::{
    Attempt, Env as _, Error, ErrorKind, FencingToken, Grant, Instant, LockName, OwnerId, Request,
    SystemEnv,
};

use crate::{
    ballot::{Ballot, Said, Verdict},
    held::{Held, Part},
    peer::micros,
    quorum::{Call, Quorum},
    round::Round,
    scripts,
    token::{self, Token},
    vote::{Tally, Vote, tally},
    wake::Ticket,
};

/// How often an attempt is made again, where too little was known of the clocks or votes were split.
const TRIES: u32 = 10;
/// How many watermarks a node keeps; names that share one only cost each other a round trip now and
/// then.
const WATERMARKS: u64 = 1024;

/// Rounded up: a lease is never shorter than its holder believes.
pub(crate) fn millis(span: Duration) -> String {
    span.as_nanos().div_ceil(1_000_000).max(1).to_string()
}

/// Which of a node's watermarks is this name's; the same for all clients (FNV-1a).
pub(crate) fn watermark(name: &LockName) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = name.as_str().bytes().fold(0xcbf2_9ce4_8422_2325, step);
    format!("mark{}", hash % WATERMARKS)
}

/// Two attempts of one owner never have the same number.
pub(crate) struct Try<'a> {
    pub(crate) request: &'a Request,
    pub(crate) number: u64,
    pub(crate) sent: Instant,
    pub(crate) limit: Duration,
    pub(crate) placed: bool,
    /// It is the first of its owner here.
    pub(crate) first: bool,
}

impl Quorum {
    /// Makes one attempt, with a place in the queues if `ticket` is given.
    pub(crate) async fn attempt(
        self: &Arc<Self>,
        request: &Request,
        ticket: Option<&Ticket>,
    ) -> Result<Attempt, Error> {
        // A task alone goes by itself; so does what is not plain.
        let plain = ticket.is_none() && request.floor == FencingToken::ZERO;
        let alone = if plain { self.gathering.alone() } else { None };
        if plain
            && alone.is_none()
            && let Some(grant) = self.gather_attempt(request).await?
        {
            return Ok(Attempt::Granted(grant));
        }
        for tried in 1.. {
            let first = alone.is_some() && tried == 1;
            let verdict = match self.try_once(request, ticket, first).await? {
                Ok(grant) => return Ok(Attempt::Granted(grant)),
                Err(verdict) => verdict,
            };
            match verdict {
                Verdict::Busy(busy) => return Ok(Attempt::Busy(busy)),
                Verdict::Quarantined(quarantined) => return Ok(Attempt::Quarantined(quarantined)),
                Verdict::Error(error) => return Err(error),
                Verdict::Split(busy) if tried == TRIES => return Ok(Attempt::Busy(busy)),
                Verdict::Clocks(error) if tried == TRIES => return Err(error),
                Verdict::Split(_) => {
                    tracing::debug!(name = %request.name, tried, "the votes were split");
                }
                Verdict::Clocks(error) => {
                    tracing::debug!(name = %request.name, tried, %error, "asked again");
                }
            }
            // Who comes back alone has all votes, and finds nodes that answer faster.
            let most = 1_000_u64 << tried.min(6);
            let pause = Duration::from_micros(SystemEnv.random() as u64 % most);
            tokio::time::sleep(pause).await;
        }
        Err(backend_redis::node::not_understood())
    }

    async fn try_once(
        self: &Arc<Self>,
        request: &Request,
        ticket: Option<&Ticket>,
        first: bool,
    ) -> Result<Result<Grant, Verdict>, Error> {
        self.settings()?;
        let limit = self.options.wait(request.lease);
        let unknown = || Error::new(ErrorKind::Unavailable, "no node's clock is known yet");
        let clock = self.clock().ok_or_else(unknown)?;
        let sent = SystemEnv.now();
        let (number, placed) = (micros(sent), ticket.is_some());
        let attempt = Try { request, number, sent, limit, placed, first };
        let contacts = self.contacts();
        let call = self.call(&attempt, clock, ticket);
        let mut round = self.ask(&contacts, &call, limit);
        let mut ballot = Ballot::new(&self.peers, self.options.clock_bound, &contacts);
        let decided = loop {
            let votes = ballot.votes();
            match tally(&votes) {
                Tally::Failed if ballot.is_clear() => break None,
                Tally::Failed => {}
                Tally::Won => {
                    // A repeat is to find the token that was agreed on before, if there is one.
                    let token = token::decide(&votes);
                    let agreed = matches!(token, Token::Agreed(_));
                    if agreed || !ballot.repeated() || !round.any_open() {
                        break Some(token);
                    }
                }
                Tally::Undecided => {}
            }
            match round.next().await {
                Some((at, answer)) => ballot.hear(at, answer),
                None => {
                    let why = format!("no answer within {}", humantime::format_duration(limit));
                    for at in round.silent() {
                        ballot.said[*at] = Said::Silent(why.clone());
                    }
                }
            }
        };
        if let Some(ticket) = ticket {
            let asked = contacts.iter().copied();
            ticket.may_be_given_by(asked.filter(|at| ballot.may_have_placed(*at)));
        }
        let token = match &decided {
            Some(Token::Agreed(number)) => Some(*number),
            Some(Token::WriteBack { number, nodes, needed }) => {
                let waiting = (&mut round, &mut ballot);
                let done = self.write_back(&attempt, *number, nodes, *needed, waiting).await;
                done.then_some(*number)
            }
            _ => None,
        };
        if let Some(token) = token.and_then(FencingToken::new) {
            if let Some(ticket) = ticket {
                // Where the lock was not given, the place would stand in the way of the next.
                let mut given = ticket.given();
                given.retain(|at| !ballot.gave(*at) && !round.is_open(*at));
                self.leave_places(request, given);
            }
            return Ok(Ok(self.won(&attempt, &ballot, round, &contacts, token)));
        }
        let verdict = if decided.is_some() {
            let message = "the token could not be written to a majority of the nodes";
            Verdict::Clocks(Error::new(ErrorKind::Unavailable, message))
        } else {
            ballot.verdict()
        };
        self.failed(&attempt, &ballot, round);
        Ok(Err(verdict))
    }

    fn call(&self, attempt: &Try<'_>, clock: u64, ticket: Option<&Ticket>) -> Arc<Call> {
        let Try { request, number, limit, .. } = attempt;
        let bound = self.options.clock_bound;
        let late = self.late(clock, *limit);
        let arguments = vec![
            request.owner.to_string(),
            millis(request.lease),
            request.label.to_string(),
            request.floor.to_string(),
            self.propose(clock).to_string(),
            bound.as_micros().to_string(),
            number.to_string(),
            late.to_string(),
            watermark(&request.name),
            clock.to_string(),
            ticket.map(|ticket| ticket.channel.clone()).unwrap_or_default(),
            ticket.map_or(0, |ticket| ticket.rank).to_string(),
        ];
        let keys = self.peers[0].node.keys(&request.name, request.owner).to_vec();
        Arc::new(Call { script: &scripts::ACQUIRE, in_epoch: true, keys, arguments })
    }

    /// The clock past which a node is ahead, or a call of now a ghost.
    pub(crate) fn late(&self, clock: u64, limit: Duration) -> u64 {
        let room = u64::try_from((limit + self.options.clock_bound).as_micros());
        clock.saturating_add(room.unwrap_or(u64::MAX))
    }

    /// Writes the largest number back, only to nodes whose vote was counted; each takes it only while
    /// the lock is still ours there.
    async fn write_back(
        self: &Arc<Self>,
        attempt: &Try<'_>,
        number: u64,
        nodes: &[usize],
        needed: usize,
        (asked, ballot): (&mut Round, &mut Ballot<'_>),
    ) -> bool {
        let request = attempt.request;
        let [epoch, lock, ..] = self.peers[0].node.keys(&request.name, request.owner);
        let arguments = vec![
            request.owner.to_string(),
            number.to_string(),
            watermark(&request.name),
            String::new(),
        ];
        let call = Call::plain(&scripts::WRITE, [epoch, lock], arguments);
        let mut round = self.ask(nodes, &call, attempt.limit);
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
                // Calls that are not polled could hold the connection's queue up for all.
                Some((at, answer)) = asked.next(), if asked.any_open() => ballot.hear(at, answer),
            }
        }
        round.finish(self, |_, _| {});
        taken >= needed
    }

    fn won(
        self: &Arc<Self>,
        attempt: &Try<'_>,
        ballot: &Ballot<'_>,
        round: Round,
        contacts: &[usize],
        token: FencingToken,
    ) -> Grant {
        let request = attempt.request;
        let (doubtful, asked) = (|at| ballot.doubtful(at), |at: usize| contacts.contains(&at));
        let (held, grant) = self.made(attempt, &ballot.votes(), doubtful, asked, token);
        let (quorum, kept) = (Arc::clone(self), Arc::clone(&held));
        let request = request.clone();
        let Try { number, sent, limit, placed, first, .. } = *attempt;
        round.finish(self, move |at, answer| {
            let given = matches!(&answer, Some(Ok(answer)) if answer.word == "ours");
            let known = matches!(&answer, Some(Ok(_)))
                || matches!(&answer, Some(Err(error)) if !error.is_ambiguous());
            if kept.straggler(at, given || !known, known) {
                let attempt = Try { request: &request, number, sent, limit, placed, first };
                quorum.undo(at, &request.name, request.owner, &attempt, !known);
            } else if placed && !given {
                quorum.leave_place(at, &request.name, request.owner);
            }
        });
        grant
    }

    /// A grant, and what is kept of it; of each node, whether it may have given the lock unheard and
    /// whether it was asked.
    pub(crate) fn made(
        &self,
        attempt: &Try<'_>,
        votes: &[Vote],
        doubtful: impl Fn(usize) -> bool,
        asked: impl Fn(usize) -> bool,
        token: FencingToken,
    ) -> (Arc<Held>, Grant) {
        let until = attempt.sent + attempt.request.lease;
        let ours = |at: usize| matches!(votes[at], Vote::Ours(_)).then_some(until);
        let part = |at: usize| Part::new(ours(at), doubtful(at), asked(at));
        let nodes = (0..self.peers.len()).map(part).collect();
        let held = Arc::new(Held::new(attempt.number, attempt.first, nodes, until));
        let state: Arc<Held> = Arc::clone(&held);
        let mut grant = Grant::new(attempt.request, token).with_state(state);
        grant.margin = 2 * self.options.clock_bound;
        (held, grant)
    }

    /// Takes back what a failed attempt was given, also by who answers later or not at all.
    fn failed(self: &Arc<Self>, attempt: &Try<'_>, ballot: &Ballot<'_>, round: Round) {
        let (name, owner) = (&attempt.request.name, attempt.request.owner);
        for at in 0..self.peers.len() {
            if ballot.gave(at) || ballot.doubtful(at) {
                self.undo(at, name, owner, attempt, ballot.doubtful(at));
            }
        }
        let (quorum, request) = (Arc::clone(self), attempt.request.clone());
        let Try { number, sent, limit, placed, first, .. } = *attempt;
        round.finish(self, move |at, answer| {
            let attempt = Try { request: &request, number, sent, limit, placed, first };
            let bury = match answer {
                Some(Ok(answer)) if answer.word == "ours" => false,
                Some(Err(error)) if error.is_ambiguous() => true,
                // At once: on the connection that may yet carry the attempt.
                None => true,
                Some(_) => return,
            };
            quorum.undo(at, &request.name, request.owner, &attempt, bury);
        });
    }

    /// Takes one node's part in an attempt back, behind. Later attempts of the same owner keep theirs.
    pub(crate) fn undo(
        self: &Arc<Self>,
        at: usize,
        name: &LockName,
        owner: OwnerId,
        attempt: &Try<'_>,
        bury: bool,
    ) {
        let number = attempt.number.to_string();
        let tombstone = if bury { number.clone() } else { String::new() };
        let call = self.freeing(name, owner, ["", &number, &tombstone, ""]);
        self.free_behind(at, call, attempt.request.lease);
    }

    /// Gives a place up behind that nobody waits in any more. Who takes one again with the same owner may
    /// lose it on a node until its next attempt.
    pub(crate) fn leave_places(
        self: &Arc<Self>,
        request: &Request,
        given: impl IntoIterator<Item = usize>,
    ) {
        for at in given {
            self.leave_place(at, &request.name, request.owner);
        }
    }

    pub(crate) fn leave_place(self: &Arc<Self>, at: usize, name: &LockName, owner: OwnerId) {
        // No record is older than attempt 0.
        let call = self.freeing(name, owner, ["", "0", "", "1"]);
        self.free_behind(at, call, Duration::from_secs(3));
    }
}
