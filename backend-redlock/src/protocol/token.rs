//! The token protocol. Nodes store numbers near a proposal. If a majority stored the same number,
//! it is the token. Otherwise a guarded write-back makes the highest number the token.

use super::vote::{Vote, majority};

/// The number that a node stores for a grant: the proposal, moved to within `bound` of the node's
/// clock, but always above the node's watermark. All are in microseconds.
///
/// Nodes run this rule as Lua, in `acquire.lua`, `acquire_fast.lua` and `batch.lua`. This copy is
/// for the model.
pub fn stored(proposed: u64, clock: u64, watermark: u64, bound: u64) -> u64 {
    let near = proposed.clamp(clock.saturating_sub(bound), clock.saturating_add(bound));
    near.max(watermark.saturating_add(1))
}

/// The result of the numbers of a vote that was won.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Token {
    /// A majority stored this number: it is the token.
    Agreed(u64),
    /// A majority must have `number` first: write it to `nodes`, whose votes count and whose
    /// numbers are lower.
    WriteBack {
        /// The largest number among the counted votes.
        number: u64,
        /// The nodes to write to.
        nodes: Vec<usize>,
        /// How many of them must accept it.
        needed: usize,
    },
    /// Without a majority of votes there is no token.
    None,
}

/// Decides on the token from the counted votes.
///
/// The write-back goes only to nodes whose votes count. The model shows that this is not needed for
/// safety, since each node checks that the asker still holds the lock ([`takes_write_back`]). It
/// costs nothing, and does not rely on a node whose clock is off.
pub fn decide(votes: &[Vote]) -> Token {
    let counted: Vec<(usize, u64)> = votes
        .iter()
        .enumerate()
        .filter_map(|(node, vote)| match vote {
            Vote::Ours(number) => Some((node, *number)),
            _ => None,
        })
        .collect();
    let needed = majority(votes.len());
    let with = |number| counted.iter().filter(|(_, other)| *other == number).count();
    if counted.len() < needed {
        return Token::None;
    }
    if let Some((_, number)) = counted.iter().find(|(_, number)| with(*number) >= needed) {
        return Token::Agreed(*number);
    }
    let Some(number) = counted.iter().map(|(_, number)| *number).max() else {
        return Token::None;
    };
    let nodes = counted.iter().filter(|(_, own)| *own < number).map(|(node, _)| *node).collect();
    Token::WriteBack { number, nodes, needed: needed - with(number) }
}

/// Whether a node accepts a written-back number. `own` is the number of the asker's record there,
/// `None` if the asker no longer holds the lock. Nodes run this rule in `write.lua`.
pub fn takes_write_back(own: Option<u64>, number: u64) -> bool {
    own.is_some_and(|own| own < number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Vote::{No, Open, Ours};

    #[test]
    fn a_proposal_is_drawn_to_the_clock_and_above_the_watermark() {
        assert_eq!(stored(100, 105, 0, 10), 100);
        assert_eq!(stored(10, 105, 0, 10), 95);
        assert_eq!(stored(900, 105, 0, 10), 115);
        assert_eq!(stored(100, 105, 100, 10), 101);
    }

    #[test]
    fn one_number_on_a_majority_is_the_token() {
        assert_eq!(decide(&[Ours(7), Ours(7), Open]), Token::Agreed(7));
        assert_eq!(decide(&[Ours(7), Ours(9), Ours(7)]), Token::Agreed(7));
        assert_eq!(decide(&[Ours(7), No, Open]), Token::None);
    }

    #[test]
    fn else_the_maximum_goes_to_counted_nodes_below_it() {
        let expected = Token::WriteBack { number: 9, nodes: vec![0], needed: 1 };
        assert_eq!(decide(&[Ours(7), Ours(9), No]), expected);
    }

    #[test]
    fn a_write_back_is_taken_only_while_ours_and_only_upwards() {
        assert!(takes_write_back(Some(7), 9));
        assert!(!takes_write_back(Some(9), 9));
        assert!(!takes_write_back(None, 9));
    }
}
