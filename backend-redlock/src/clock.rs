//! Whose clock gives a node a vote.

/// Which nodes may vote, from their clocks estimated for one instant; `None` where unknown. All in
/// microseconds.
///
/// A node further than `bound` from the median has no vote. With two clocks known and more than
/// `bound` apart nobody can say which is wrong, so neither has one. A single clock has nothing to
/// be compared with and keeps its vote, which alone is no majority.
pub fn may_vote(clocks: &[Option<u64>], bound: u64) -> Vec<bool> {
    let mut known: Vec<u64> = clocks.iter().flatten().copied().collect();
    known.sort_unstable();
    let fits = |clock: u64| match known.as_slice() {
        [first, last] => last - first <= bound,
        // Of an even number both middle clocks must agree with it: the stricter reading.
        all => {
            let (low, high) = (all[(all.len() - 1) / 2], all[all.len() / 2]);
            clock.abs_diff(low) <= bound && clock.abs_diff(high) <= bound
        }
    };
    clocks.iter().map(|clock| clock.is_some_and(fits)).collect()
}

/// Whether a node's clock went back between two replies on one connection.
pub fn went_back(earlier: u64, later: u64) -> bool {
    later < earlier
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_off_the_median_has_no_vote() {
        assert_eq!(may_vote(&[Some(100), Some(101), Some(500)], 10), [true, true, false]);
        assert_eq!(may_vote(&[Some(100), None, Some(105)], 10), [true, false, true]);
    }

    #[test]
    fn two_clocks_apart_refuse_both() {
        assert_eq!(may_vote(&[Some(100), None, Some(500)], 10), [false, false, false]);
        assert_eq!(may_vote(&[None, None], 10), [false, false]);
    }

    #[test]
    fn backwards_is_seen() {
        assert!(went_back(10, 9));
        assert!(!went_back(10, 10));
    }
}
