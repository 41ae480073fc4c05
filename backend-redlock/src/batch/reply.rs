//! What a node replies to a batch.

use backend_redis::node::{Value, not_understood, number};
use lock_core::Error;

use crate::{protocol::clock::Span, quorum::node::NodeAnswer};

/// What one node replied to a batch.
pub(super) enum BatchReply {
    Pending,
    /// The node was not asked, or did not answer. `true` if it may have carried out the batch.
    Failed(bool),
    Answer(Vec<i64>, Option<Span>),
}

impl BatchReply {
    pub(super) fn of(answer: Result<NodeAnswer, Error>, jobs: [usize; 2]) -> Self {
        let read = answer.and_then(|answer| Ok((read(&answer, jobs)?, answer.span)));
        match read {
            Ok((numbers, span)) => Self::Answer(numbers, span),
            Err(error) => Self::Failed(error.is_ambiguous()),
        }
    }

    pub(super) fn span(&self) -> Option<Span> {
        match self {
            Self::Answer(_, span) => *span,
            _ => None,
        }
    }

    pub(super) fn number(&self, job: usize) -> Option<i64> {
        match self {
            Self::Answer(numbers, _) => Some(numbers[job]),
            _ => None,
        }
    }

    /// Whether the node gave the lock, or may have.
    pub(super) fn gave(&self, job: usize) -> bool {
        self.number(job).is_some_and(|number| number > 0) || matches!(self, Self::Failed(true))
    }
}

/// The numbers of all jobs, the releases first.
pub(crate) fn read(
    answer: &NodeAnswer,
    [releases, attempts]: [usize; 2],
) -> Result<Vec<i64>, Error> {
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
