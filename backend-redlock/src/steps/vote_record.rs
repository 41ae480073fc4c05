//! What the nodes replied to one attempt, and what follows from it.

use std::{collections::BTreeMap, ops::Range, time::Duration};

use backend_redis::node::holder;
use lock_core::{
    Busy, Env as _, Error, ErrorKind, FencingToken, Grant, Holder, Quarantined, SystemEnv,
};

use crate::{
    protocol::{
        clock::may_vote,
        vote::{Vote, majority},
    },
    quorum::node::{Node, NodeAnswer},
    tunables::{FAR_POLL, FAR_POSITION, NEAR_POLL, POLL_STEP, POLL_STEPS, UNHELD_POLL_MICROS},
};

#[derive(Debug)]
pub(crate) enum NodeReply {
    /// It may still answer.
    Pending,
    /// It was not asked, or did not answer in time. The text is the reason.
    Silent(String),
    Failed(Error),
    Answer(NodeAnswer),
}

#[derive(Debug)]
pub(crate) struct VoteRecord<'a> {
    nodes: &'a [Node],
    bound: Duration,
    pub(crate) replies: Vec<NodeReply>,
}

/// What the votes on an attempt mean.
#[derive(Debug)]
pub(crate) enum Verdict {
    Granted(Grant),
    Busy(Busy),
    /// Several clients asked at once, and none has a majority.
    Split(Busy),
    Quarantined(Quarantined),
    Error(Error),
    /// No majority could vote, but only because too little was known of the clocks. The answers
    /// have added to that.
    Clocks(Error),
}

impl<'a> VoteRecord<'a> {
    pub(crate) fn new(nodes: &'a [Node], bound: Duration, contacts: &[usize]) -> Self {
        let why = |node: &Node| node.suspected().unwrap_or_default();
        let mut replies: Vec<_> = nodes.iter().map(|node| NodeReply::Silent(why(node))).collect();
        for at in contacts {
            replies[*at] = NodeReply::Pending;
        }
        Self { nodes, bound, replies }
    }

    pub(crate) fn add(&mut self, at: usize, answer: Result<NodeAnswer, Error>) {
        self.replies[at] = match answer {
            Ok(answer) => NodeReply::Answer(answer),
            Err(error) => NodeReply::Failed(error),
        };
    }

    /// Which of the nodes that have answered may vote by their clocks.
    fn in_line(&self) -> Vec<bool> {
        let spans: Vec<_> = self.replies.iter().map(|reply| reply.answer()?.span).collect();
        may_vote(&spans, u64::try_from(self.bound.as_micros()).unwrap_or(u64::MAX))
    }

    fn open(&self) -> bool {
        self.replies.iter().any(|reply| matches!(reply, NodeReply::Pending))
    }

    /// The votes so far. Until all nodes have answered, a node whose clock seems wrong now may get
    /// its vote later.
    pub(crate) fn votes(&self) -> Vec<Vote> {
        let (in_line, open) = (self.in_line(), self.open());
        let vote = |(at, reply): (usize, &NodeReply)| match reply {
            NodeReply::Pending => Vote::Open,
            NodeReply::Answer(answer)
                if answer.word == "ours" && self.nodes[at].twin().is_none() =>
            {
                match answer.number(2) {
                    Ok(number) if in_line[at] => Vote::Ours(number),
                    Ok(_) if open => Vote::Open,
                    _ => Vote::No,
                }
            }
            _ => Vote::No,
        };
        self.replies.iter().enumerate().map(vote).collect()
    }

    /// Whether a node had the attempt's lock before: it is a repeat.
    pub(crate) fn repeated(&self) -> bool {
        let again = |answer: &NodeAnswer| answer.word == "ours" && answer.number(3).ok() == Some(1);
        self.replies.iter().filter_map(NodeReply::answer).any(again)
    }

    /// Whether the node gave the lock, whether or not that counts.
    pub(crate) fn gave(&self, at: usize) -> bool {
        self.replies[at].answer().is_some_and(|answer| answer.word == "ours")
    }

    /// Whether the node may have given the lock without our knowledge.
    pub(crate) fn doubtful(&self, at: usize) -> bool {
        matches!(&self.replies[at], NodeReply::Failed(error) if error.is_ambiguous())
    }

    /// Whether the node, which was asked with an entry, may have made one.
    pub(crate) fn may_have_queued(&self, at: usize) -> bool {
        match &self.replies[at] {
            NodeReply::Pending | NodeReply::Silent(_) => true,
            NodeReply::Failed(error) => error.is_ambiguous(),
            NodeReply::Answer(answer) => answer.word == "busy",
        }
    }

    fn count(&self, word: &str) -> usize {
        let same = |answer: &&NodeAnswer| answer.word == word;
        self.replies.iter().filter_map(NodeReply::answer).filter(same).count()
    }

    /// What a lost vote means.
    pub(crate) fn verdict(&self) -> Verdict {
        let needed = majority(self.nodes.len());
        let ours = self.votes().iter().filter(|vote| matches!(vote, Vote::Ours(_))).count();
        let (busy, held_back) = (self.count("busy"), self.count("quarantine"));
        if busy > 0 && ours + busy >= needed {
            return self.contended();
        }
        if held_back > 0 && ours + busy + held_back >= needed {
            return Verdict::Quarantined(self.quarantined(needed - ours - busy));
        }
        if busy > 0 && busy + self.not_answered() >= needed && self.holder().is_some() {
            return Verdict::Busy(self.busy());
        }
        self.refused(needed)
    }

    fn contended(&self) -> Verdict {
        let busy = self.busy();
        let given = (0..self.replies.len()).any(|at| self.gave(at));
        let split = busy.holder.is_none() && (given || self.names().next().is_some());
        if split { Verdict::Split(busy) } else { Verdict::Busy(busy) }
    }

    /// Whether a lost vote needs no more answers to be understood.
    pub(crate) fn is_clear(&self) -> bool {
        let needed = majority(self.nodes.len());
        // By owner and number: a holder's number may differ on a minority of the nodes.
        let mut counts: BTreeMap<_, usize> = BTreeMap::new();
        for answer in self.replies.iter().filter_map(NodeReply::answer).filter(|a| a.word == "busy")
        {
            *counts.entry((answer.text(2).ok(), answer.text(5).ok())).or_default() += 1;
        }
        !self.open() || counts.values().any(|count| *count >= needed)
    }

    /// The owners that refusals name.
    fn names(&self) -> impl Iterator<Item = &str> {
        let busy = self.replies.iter().filter_map(NodeReply::answer).filter(|a| a.word == "busy");
        busy.filter_map(|answer| answer.text(2).ok().filter(|owner| !owner.is_empty()))
    }

    fn not_answered(&self) -> usize {
        self.replies.iter().filter(|reply| reply.answer().is_none()).count()
    }

    /// The owner that most nodes name, if they may be a majority together with the nodes that have
    /// not answered; and the number that most of them have for it.
    fn holder(&self) -> Option<(Holder, u64)> {
        let mut named: BTreeMap<&str, Vec<&NodeAnswer>> = BTreeMap::new();
        for answer in self.replies.iter().filter_map(NodeReply::answer).filter(|a| a.word == "busy")
        {
            if let Ok(owner) = answer.text(2)
                && !owner.is_empty()
            {
                named.entry(owner).or_default().push(answer);
            }
        }
        let (owner, answers) = named.into_iter().max_by_key(|(_, answers)| answers.len())?;
        if answers.len() + self.not_answered() < majority(self.nodes.len()) {
            return None;
        }
        let mut numbers: BTreeMap<u64, usize> = BTreeMap::new();
        for answer in &answers {
            *numbers.entry(answer.number(5).ok()?).or_default() += 1;
        }
        let (number, _) = numbers.into_iter().max_by_key(|(_, count)| *count)?;
        let left = answers.iter().filter_map(|answer| answer.number(4).ok()).max()?;
        Some((holder(owner, answers[0].text(3).ok(), Duration::from_millis(left)), number))
    }

    fn busy(&self) -> Busy {
        let busy =
            || self.replies.iter().filter_map(NodeReply::answer).filter(|a| a.word == "busy");
        let highest = busy().filter_map(|answer| answer.number(5).ok()).max().unwrap_or(0);
        // A waiter further back asks later, so that not all ask at once when a lease ends.
        let ahead = busy().filter_map(position).min();
        let step = POLL_STEP * ahead.unwrap_or(0).min(POLL_STEPS) as u32;
        let far = ahead.is_none_or(|count| count >= FAR_POSITION);
        let longest = if far { FAR_POLL } else { NEAR_POLL };
        let (holder, number) = match self.holder() {
            Some((holder, number)) => (Some(holder), number),
            None => (None, highest),
        };
        let retry_after = match &holder {
            Some(holder) => holder.remaining + Duration::from_millis(1) + step,
            None => {
                let Range { start, end } = UNHELD_POLL_MICROS;
                let pause = start + SystemEnv.random() as u64 % (end - start);
                Duration::from_micros(pause) + step
            }
        };
        let token = FencingToken::new(number).unwrap_or(FencingToken::ZERO);
        Busy::new(holder, token, retry_after.min(longest))
    }

    fn quarantined(&self, missing: usize) -> Quarantined {
        let mut waits: Vec<(u64, String)> = Vec::new();
        for (node, reply) in self.nodes.iter().zip(&self.replies) {
            if let Some(answer) = reply.answer().filter(|answer| answer.word == "quarantine") {
                let why = format!("{}: {}", node.address, answer.text(3).unwrap_or_default());
                waits.push((answer.number(2).unwrap_or_default(), why));
            }
        }
        waits.sort_unstable();
        let remaining = waits.get(missing.max(1) - 1).map_or(0, |(micros, _)| *micros);
        let why: Vec<_> = waits.into_iter().map(|(_, why)| why).collect();
        let why = format!("too few nodes vote; {}", why.join("; "));
        Quarantined::new(Duration::from_micros(remaining), why)
    }

    /// There is no majority, although no client holds the lock.
    fn refused(&self, needed: usize) -> Verdict {
        let in_line = self.in_line();
        let (mut reasons, mut kind, mut clocks) = (Vec::new(), None, 0);
        let mut votes = 0;
        for (at, reply) in self.replies.iter().enumerate() {
            let (worse, why) = match self.why(at, reply, in_line[at]) {
                Some(reason) => reason,
                None => {
                    votes += 1;
                    continue;
                }
            };
            let by_clock = reply.answer().is_some_and(|answer| answer.word != "quarantine");
            clocks += usize::from(by_clock && worse.is_none());
            kind = kind.or(worse);
            reasons.push(format!("{} {why}", self.nodes[at].address));
        }
        let message = format!(
            "{votes} of {} nodes could vote, and {needed} are needed: {}",
            self.nodes.len(),
            reasons.join("; ")
        );
        let error = Error::new(kind.unwrap_or(ErrorKind::Unavailable), message);
        if kind.is_none() && votes + clocks >= needed {
            Verdict::Clocks(error)
        } else {
            Verdict::Error(error)
        }
    }

    /// Why a node has no vote; and the kind of error, if trying again does not help.
    fn why(
        &self,
        at: usize,
        reply: &NodeReply,
        in_line: bool,
    ) -> Option<(Option<ErrorKind>, String)> {
        let limit = |answer: &NodeAnswer| answer.number(2).unwrap_or_default();
        let bound = humantime::format_duration(self.bound);
        Some(match reply {
            NodeReply::Pending => (None, "did not answer in time".into()),
            NodeReply::Silent(why) => {
                (None, format!("was skipped until it answers a probe ({why})"))
            }
            NodeReply::Failed(error) => {
                (Some(error.kind()).filter(|_| !error.is_retryable()), format!("failed ({error})"))
            }
            NodeReply::Answer(answer) => match answer.word.as_str() {
                "ours" | "busy" => match self.nodes[at].twin() {
                    Some(error) => (Some(ErrorKind::Config), error.to_string()),
                    None if !in_line && answer.span.is_none() => {
                        (None, "has a clock that went back".into())
                    }
                    None if !in_line => {
                        (None, format!("has a clock that may be off by more than {bound}"))
                    }
                    None => return None,
                },
                "late" | "clock" => (None, format!("has a clock that is off by more than {bound}")),
                "quarantine" => (None, "is in quarantine".into()),
                "floor" => (
                    Some(ErrorKind::InvalidInput),
                    format!(
                        "refuses a floor so far ahead of its clock; the floor must be at most {}",
                        limit(answer)
                    ),
                ),
                "lease" => (
                    Some(ErrorKind::InvalidInput),
                    "refuses a lease above its longest lease".into(),
                ),
                "exhausted" => (
                    Some(ErrorKind::Config),
                    "has no fencing tokens left, since its fencing tokens are used up; \
                     `leasehold init --reset-tokens` sets them back"
                        .into(),
                ),
                word => (None, format!("answered {word:?}")),
            },
        })
    }
}

fn position(answer: &NodeAnswer) -> Option<u64> {
    match answer.part(6).ok()? {
        backend_redis::node::Value::Int(rank) => u64::try_from(*rank).ok(),
        _ => None,
    }
}

impl NodeReply {
    pub(crate) fn answer(&self) -> Option<&NodeAnswer> {
        match self {
            Self::Answer(answer) => Some(answer),
            _ => None,
        }
    }
}
