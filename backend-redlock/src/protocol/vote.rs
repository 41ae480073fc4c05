//! Counts votes: the result is known as soon as a majority is certain either way.

/// More than half of `nodes`.
pub const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// What an attempt knows of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Vote {
    /// It has not answered.
    Open,
    /// It keeps the lock for us, with this number.
    Ours(u64),
    /// Another owner holds the lock, or the node is in quarantine, has failed, or has no vote
    /// because of its clock.
    No,
}

/// The result of the votes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tally {
    /// A majority is ours, whatever the others answer.
    Won,
    /// We cannot get a majority any more.
    Failed,
    /// The result depends on nodes that have not answered.
    Undecided,
}

/// Counts the votes of *all* nodes, one entry per node. A majority is one of all nodes, not of
/// those that answered.
pub fn tally(votes: &[Vote]) -> Tally {
    let ours = votes.iter().filter(|vote| matches!(vote, Vote::Ours(_))).count();
    let open = votes.iter().filter(|vote| matches!(vote, Vote::Open)).count();
    let needed = majority(votes.len());
    if ours >= needed {
        Tally::Won
    } else if ours + open < needed {
        Tally::Failed
    } else {
        Tally::Undecided
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Vote::{No, Open, Ours};

    #[test]
    fn the_answer_comes_when_it_is_certain() {
        assert_eq!(tally(&[Ours(1), Ours(1), Open]), Tally::Won);
        assert_eq!(tally(&[No, No, Open]), Tally::Failed);
        assert_eq!(tally(&[Ours(1), No, Open]), Tally::Undecided);
        assert_eq!(tally(&[Ours(1), Ours(1), No, Open, No]), Tally::Undecided);
    }

    #[test]
    fn nodes_that_failed_still_count_as_nodes() {
        assert_eq!(tally(&[Ours(1), Ours(1), No, No, No]), Tally::Failed);
    }
}
