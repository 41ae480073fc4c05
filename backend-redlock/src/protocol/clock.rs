//! Which nodes may vote, by their clocks.

/// How far a node's clock is ahead of this process's, in microseconds: between `low` and `high`,
/// since it was read between the request and its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The difference if the clock was read just before the reply came.
    pub low: i64,
    /// The difference if the clock was read just after the request left.
    pub high: i64,
}

impl Span {
    /// A node's clock `stamp`, read between `sent` and `received` on this process's clock.
    #[must_use]
    pub fn new(stamp: u64, sent: u64, received: u64) -> Self {
        Self { low: stamp as i64 - received as i64, high: stamp as i64 - sent as i64 }
    }

    /// The middle, as the best single number.
    #[must_use]
    pub fn middle(self) -> i64 {
        self.low + (self.high - self.low) / 2
    }

    /// Whether both can be true of a clock that did not step.
    #[must_use]
    pub fn agrees(self, other: Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    /// The uncertainty: the duration of the call.
    #[must_use]
    pub fn width(self) -> u64 {
        self.high.abs_diff(self.low)
    }
}

/// Which nodes may vote, by what is known of their clocks. `None` means that nothing is known of a
/// clock.
///
/// A node whose clock may be further than `bound` (µs) from the median has no vote. If only two
/// clocks are known, and they may be more than `bound` apart, either may be wrong: so neither node
/// has a vote. A single clock cannot be compared with others. Its node keeps its vote, which alone
/// is no majority. A reply that took longer than `bound` says too little.
#[must_use]
pub fn may_vote(clocks: &[Option<Span>], bound: u64) -> Vec<bool> {
    let mut lows: Vec<i64> = clocks.iter().flatten().map(|span| span.low).collect();
    let mut highs: Vec<i64> = clocks.iter().flatten().map(|span| span.high).collect();
    if lows.is_empty() {
        return vec![false; clocks.len()];
    }
    lows.sort_unstable();
    highs.sort_unstable();
    let bound = i64::try_from(bound).unwrap_or(i64::MAX);
    // For an even number, both middle clocks must agree with it, which is stricter.
    let (low, high) = (lows[(lows.len() - 1) / 2], highs[highs.len() / 2]);
    let fits = |span: Span| span.high - low <= bound && high - span.low <= bound;
    clocks.iter().map(|clock| clock.is_some_and(fits)).collect()
}

/// The median: how far the nodes' clock is ahead of this process's.
#[must_use]
pub fn median(clocks: &[Option<Span>]) -> Option<i64> {
    let mut known: Vec<i64> = clocks.iter().flatten().map(|span| span.middle()).collect();
    known.sort_unstable();
    known.get(known.len().checked_sub(1)? / 2).copied()
}

/// Whether a node's clock went back between two replies. The client sent the later request after it
/// had the earlier reply.
#[must_use]
pub fn went_back(earlier: u64, later: u64) -> bool {
    later < earlier
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: i64) -> Option<Span> {
        Some(Span { low: offset, high: offset })
    }

    #[test]
    fn a_clock_off_the_median_has_no_vote() {
        assert_eq!(may_vote(&[at(100), at(101), at(500)], 10), [true, true, false]);
        assert_eq!(may_vote(&[at(100), None, at(105)], 10), [true, false, true]);
    }

    #[test]
    fn two_clocks_apart_refuse_both() {
        assert_eq!(may_vote(&[at(100), None, at(500)], 10), [false, false, false]);
        assert_eq!(may_vote(&[None, None], 10), [false, false]);
        assert_eq!(may_vote(&[at(-7), None], 10), [true, false]);
    }

    #[test]
    fn a_slow_reply_says_too_little() {
        let slow = Some(Span { low: 90, high: 115 });
        assert_eq!(may_vote(&[at(100), at(100), slow], 10), [true, true, false]);
        assert_eq!(may_vote(&[at(100), at(100), slow], 30), [true, true, true]);
    }

    #[test]
    fn the_median_is_that_of_the_middles() {
        assert_eq!(median(&[at(3), None, at(100), at(5)]), Some(5));
        assert_eq!(median(&[None]), None);
        let span = Span::new(1_000, 100, 120);
        assert_eq!((span.low, span.high, span.middle(), span.width()), (880, 900, 890, 20));
        assert!(span.agrees(Span { low: 900, high: 950 }));
        assert!(!span.agrees(Span { low: 901, high: 950 }));
    }

    #[test]
    fn backwards_is_seen() {
        assert!(went_back(10, 9));
        assert!(!went_back(10, 10));
    }
}
