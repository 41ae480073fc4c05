//! Random numbers from a seed, so that a plan can be repeated.

use std::time::Duration;

/// SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// The numbers of one task of one process.
    pub(crate) fn of(seed: u64, process: u32, task: u32) -> Self {
        let mut rng = Self(seed);
        let mixed = rng.bits() ^ (u64::from(process) << 32 | u64::from(task));
        Self(mixed)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `below`.
    pub(crate) fn roll(&mut self, below: u64) -> u64 {
        self.bits() % below.max(1)
    }

    /// A duration of up to `most` milliseconds.
    pub(crate) fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.roll(most + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again_and_each_task_its_own() {
        let draw = |process, task| {
            let mut rng = Rng::of(7, process, task);
            [rng.bits(), rng.bits(), rng.bits()]
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(2, 1));
    }
}
