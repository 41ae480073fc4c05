//! Renewal by majority, in one round trip per node for a batch.

use std::{sync::Arc, time::Duration};

use backend_redis::node::{Value, list, number};
use lock_core::{Env as _, Error, ErrorKind, Grant, Instant, LossReason, Renewal, SystemEnv};

use crate::{
    acquire::millis,
    clock::may_vote,
    held::{Held, Part, Parts},
    peer::Answer,
    quorum::{Call, Quorum},
    scripts,
    validity::expiry,
    vote::majority,
};

/// How many renewals go into one script call: a script holds the whole server up.
pub(crate) const BATCH: usize = 200;

/// What the nodes said of one grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Renewed,
    Taken,
    Gone,
}

/// The answers of all nodes to one batch.
struct Answers {
    spans: Vec<Option<crate::clock::Span>>,
    words: Vec<Option<Vec<Word>>>,
    /// The shortest of the nodes' longest leases: one that was lowered binds before it is on all nodes.
    longest: Duration,
}

impl Answers {
    fn hear(&mut self, at: usize, answer: Answer, grants: usize) -> Result<(), Error> {
        let words: Vec<Word> =
            list(answer.part(2)?.clone())?.iter().map(word_of).collect::<Result<_, _>>()?;
        if words.len() == grants {
            self.spans[at] = answer.span;
            self.words[at] = Some(words);
            let longest = Some(answer.number(3)?).filter(|micros| *micros > 0);
            self.longest = self.longest.min(longest.map_or(Duration::MAX, Duration::from_micros));
        }
        Ok(())
    }

    fn of(&self, grant: usize) -> Vec<Option<Word>> {
        self.words.iter().map(|words| words.as_ref().map(|words| words[grant])).collect()
    }

    /// Whether a grant's fate is certain: renewed by a majority in line, or gone from one.
    fn certain(&self, grant: usize, in_line: &[bool]) -> bool {
        let words = self.of(grant);
        renewed(&words, in_line) >= majority(words.len()) || lost(&words).is_some()
    }
}

fn word_of(value: &Value) -> Result<Word, Error> {
    Ok(match number(value)? {
        1 => Word::Renewed,
        2 => Word::Taken,
        _ => Word::Gone,
    })
}

fn renewed(words: &[Option<Word>], in_line: &[bool]) -> usize {
    words.iter().zip(in_line).filter(|(word, line)| **word == Some(Word::Renewed) && **line).count()
}

/// A grant that a majority no longer has is gone for good: renewal re-acquires nothing.
fn lost(words: &[Option<Word>]) -> Option<LossReason> {
    let count = |wanted| words.iter().filter(|word| **word == Some(wanted)).count();
    let (taken, gone) = (count(Word::Taken), count(Word::Gone));
    (taken + gone >= majority(words.len())).then_some(if taken > gone {
        LossReason::TakenOver
    } else {
        LossReason::Gone
    })
}

impl Quorum {
    pub(crate) async fn renew_batch(
        self: &Arc<Self>,
        grants: &[&Grant],
        sent: Instant,
    ) -> Vec<Renewal> {
        let node = &self.peers[0].node;
        let shortest = grants.iter().map(|grant| grant.lease).min().unwrap_or_default();
        let limit = self.options.wait(shortest);
        let late = self.clock().map(|clock| self.late(clock, limit)).unwrap_or(u64::MAX >> 11);
        let (mut keys, mut arguments) = (vec![node.epoch_key()], vec![late.to_string()]);
        for grant in grants {
            let [lock, _] = node.lock_and_queue(&grant.name);
            keys.push(lock);
            arguments.extend([grant.owner.to_string(), millis(grant.lease)]);
        }
        let call = Call::plain(&scripts::RENEW, keys, arguments);
        let mut round = self.ask(&self.contacts(), &call, limit);
        let nodes = self.peers.len();
        let (spans, words) = (vec![None; nodes], vec![None; nodes]);
        let mut answers = Answers { spans, words, longest: Duration::MAX };
        let mut failure = None;
        let in_line = loop {
            let in_line = may_vote(&answers.spans, self.options.bound_micros());
            if (0..grants.len()).all(|grant| answers.certain(grant, &in_line)) {
                break in_line;
            }
            match round.next().await {
                Some((at, Ok(answer))) => {
                    failure = answers.hear(at, answer, grants.len()).err().or(failure);
                }
                Some((_, Err(error))) => failure = Some(error),
                None => break in_line,
            }
        };
        round.finish(self, |_, _| {});
        let apply = |(at, grant): (usize, &&Grant)| {
            let lease = grant.lease.min(answers.longest);
            self.apply(grant, &answers.of(at), &in_line, (sent, lease), failure.as_ref())
        };
        grants.iter().enumerate().map(apply).collect()
    }

    fn apply(
        self: &Arc<Self>,
        grant: &Grant,
        words: &[Option<Word>],
        in_line: &[bool],
        (sent, lease): (Instant, Duration),
        failure: Option<&Error>,
    ) -> Renewal {
        let held = Held::of(grant);
        let mut parts = held.as_deref().map(Held::parts);
        let before = parts.as_ref().and_then(|parts| parts.lost);
        if let Some(reason) = before.or_else(|| lost(words)) {
            let mut until = SystemEnv.now() + grant.lease;
            if let Some(parts) = &mut parts {
                parts.lost = Some(reason);
                until = parts.told;
            }
            drop(parts);
            self.spare(grant, until);
            return Renewal::Lost(reason);
        }
        let improved = parts.as_mut().and_then(|parts| improve(parts, words, in_line, sent, lease));
        let until =
            if renewed(words, in_line) >= self.majority() { Some(sent + lease) } else { improved };
        if let Some(until) = until {
            if let Some(parts) = &mut parts {
                parts.told = parts.told.max(until);
            }
            return Renewal::Renewed { from: until - lease, lease };
        }
        let message = format!(
            "{} of {} nodes renewed, and {} are needed",
            renewed(words, in_line),
            self.peers.len(),
            self.majority()
        );
        let mut error = Error::new(ErrorKind::Unavailable, message);
        if let Some(failure) = failure {
            error = error.with_source(failure.clone());
        }
        Renewal::Unknown(error.at("redlock", "renew").on(&grant.name))
    }
}

/// Notes until when each node keeps the lock; the end for a majority, if that is later than before.
fn improve(
    parts: &mut Parts,
    words: &[Option<Word>],
    in_line: &[bool],
    sent: Instant,
    lease: Duration,
) -> Option<Instant> {
    let end = |parts: &[Part]| expiry(&parts.iter().map(|part| part.until).collect::<Vec<_>>());
    let before = end(&parts.nodes);
    for (part, (word, line)) in parts.nodes.iter_mut().zip(words.iter().zip(in_line)) {
        match word {
            // Not longer than the lease of this renewal, which a later one may set anew.
            Some(Word::Renewed) if *line => part.until = Some(sent + lease),
            Some(Word::Taken | Word::Gone) => part.until = None,
            _ => {}
        }
    }
    let after = end(&parts.nodes)?;
    let spent = after.since(sent) < Duration::from_millis(1);
    (before.is_none_or(|before| after > before) && !spent).then_some(after)
}
