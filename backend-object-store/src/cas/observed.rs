//! What this client has seen of other holders: the expiry of leases, on its own clock.

use std::{collections::HashMap, time::Duration};

use lock_core::{Instant, LockName, Mutex, drift_margin};

use super::{
    record::{Nonce, Record},
    store::Version,
};
use crate::tunables::{FEW_NAMES, REMEMBERED};

/// A record as it was last read or written, with its version; `None` if the object is not there.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen(pub(super) Option<(Record, Version)>);

/// A record, and what this client knows of its holder's lease.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) seen: Seen,
    /// What is left of the lease for certain; zero if it is over.
    pub(super) remaining: Duration,
}

impl View {
    pub(super) fn record(&self) -> Option<&Record> {
        self.seen.0.as_ref().map(|(record, _)| record)
    }

    pub(super) fn version(&self) -> Option<&Version> {
        self.seen.0.as_ref().map(|(_, version)| version)
    }

    /// Whether the holder's lease is over.
    pub(super) fn is_over(&self) -> bool {
        self.remaining.is_zero()
    }
}

/// The holders that this client has seen.
#[derive(Debug)]
pub(super) struct Observed(Mutex<Names>);

#[derive(Debug)]
struct Names {
    holders: HashMap<LockName, Sign>,
    /// The number of names at which the next sweep comes.
    sweep_at: usize,
}

/// The last sign of life of a holder.
#[derive(Debug)]
struct Sign {
    beat: Nonce,
    /// When the first answer with this beat had come. An instant before the request would be wrong:
    /// a request that is sent early and served late may meet a beat that is younger than it.
    first: Instant,
    last: Instant,
    /// The record as it was last seen.
    seen: (Record, Version),
}

impl Observed {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Names { holders: HashMap::new(), sweep_at: FEW_NAMES }))
    }

    /// Takes note of an answer that has come by `now`.
    pub(super) fn look(&self, name: &LockName, seen: Seen, now: Instant) -> View {
        let mut names = self.0.lock();
        let held = seen.0.as_ref().and_then(|it| Some((it, it.0.holder.as_ref()?)));
        let Some(((record, version), held)) = held else {
            names.holders.remove(name);
            return View { seen, remaining: Duration::ZERO };
        };
        let known = names.holders.get(name).filter(|sign| sign.beat == held.beat);
        let first = known.map_or(now, |sign| sign.first);
        let sign = Sign {
            beat: held.beat.clone(),
            first,
            last: now,
            seen: (record.clone(), version.clone()),
        };
        names.holders.insert(name.clone(), sign);
        names.sweep(now);
        let lease = held.lease() + drift_margin(held.lease());
        View { seen, remaining: lease.saturating_sub(now.since(first)) }
    }

    /// The last record with a holder that was seen, without asking the store. It may be old.
    pub(super) fn last(&self, name: &LockName, now: Instant) -> Option<View> {
        let seen = self.0.lock().holders.get(name).map(|sign| sign.seen.clone())?;
        Some(self.look(name, Seen(Some(seen)), now))
    }
}

impl Names {
    /// Runs once each time the number of names has doubled, so its cost per name is constant.
    fn sweep(&mut self, now: Instant) {
        if self.holders.len() >= self.sweep_at {
            self.holders.retain(|_, sign| now.since(sign.last) < REMEMBERED);
            self.sweep_at = FEW_NAMES.max(2 * self.holders.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use lock_core::{FencingToken, OwnerId, OwnerLabel};

    use super::*;
    use crate::cas::record::Held;

    fn held(beat: u128, lease_ms: u64) -> Seen {
        let holder = Held {
            owner: OwnerId::from_bits(7),
            label: OwnerLabel::new("test").unwrap(),
            lease_ms,
            beat: Nonce::of(beat),
            kept: false,
        };
        let record = Record {
            nonce: Nonce::of(beat),
            token: FencingToken::ZERO,
            holder: Some(holder),
            abandoned: Vec::new(),
            value: None,
        };
        Seen(Some((record, Version(beat.to_string()))))
    }

    fn at(millis: u64) -> Instant {
        Instant::default() + Duration::from_millis(millis)
    }

    #[test]
    fn a_lease_is_over_once_one_beat_was_seen_for_a_lease_and_the_margin() {
        let (observed, name) = (Observed::new(), LockName::new("job").unwrap());
        let look = |beat, millis| observed.look(&name, held(beat, 1_000), at(millis));
        assert_eq!(look(1, 5_000).remaining, Duration::from_millis(1_012));
        assert!(!look(1, 6_011).is_over());
        assert!(look(1, 6_012).is_over());
        // The holder has renewed.
        assert!(!look(2, 6_013).is_over());
        assert!(!look(2, 7_024).is_over());
        // A reader that was overtaken brings an old answer: the count begins anew.
        assert!(!look(1, 7_025).is_over());
        assert!(!look(2, 7_026).is_over());
        assert!(look(2, 8_038).is_over());
    }

    #[test]
    fn what_nobody_asks_about_is_forgotten() {
        let observed = Observed::new();
        for number in 0..3 * FEW_NAMES {
            let name = LockName::new(format!("job {number}")).unwrap();
            // Ten minutes each: more than the client remembers, together.
            observed.look(&name, held(1, 1_000), at(number as u64 * 600_000));
        }
        let kept = observed.0.lock().holders.len();
        assert!(kept <= FEW_NAMES, "{kept}");
        let free = LockName::new("job 3071").unwrap();
        assert!(observed.last(&free, at(0)).is_some());
        observed.look(&free, Seen::default(), at(0));
        assert!(observed.last(&free, at(0)).is_none());
    }
}
