//! What this client has seen of other holders: the expiry of leases, on its own clock.

use std::{collections::HashMap, time::Duration};

use lock_core::{Instant, LockName, Mutex, drift_margin};

use super::{
    record::{Nonce, Record},
    store::Version,
};
use crate::tunables::{FEW_NAMES, REMEMBERED};

/// A record as it was last read or written, with its version; `None` if the object is not there.
pub(super) type Seen = Option<(Record, Version)>;

/// A record, and what this client knows of its holder's lease.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) seen: Seen,
    /// What is left of the lease for certain; zero if it is over.
    pub(super) remaining: Duration,
}

impl View {
    pub(super) fn record(&self) -> Option<&Record> {
        self.seen.as_ref().map(|(record, _)| record)
    }

    pub(super) fn version(&self) -> Option<&Version> {
        self.seen.as_ref().map(|(_, version)| version)
    }

    /// Whether the holder's lease is over.
    pub(super) fn is_over(&self) -> bool {
        self.remaining.is_zero()
    }
}

/// What this client knows of holders.
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
    /// A lease and a margin after the first answer with this beat had come. An instant before the
    /// request would be wrong: a request that is sent early and served late may meet a beat that is
    /// younger than it.
    end: Instant,
    last: Instant,
    /// The record, if this client was the last to write it: the next renewal needs no read.
    written: Option<(Record, Version)>,
}

impl Observed {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Names { holders: HashMap::new(), sweep_at: FEW_NAMES }))
    }

    /// Takes note of an answer that has come by `now`: of a read, or of a write of this client.
    pub(super) fn look(&self, name: &LockName, seen: Seen, is_own: bool, now: Instant) -> View {
        let mut names = self.0.lock();
        let known = names.holders.remove(name);
        let held = seen.as_ref().and_then(|it| Some((it, it.0.holder.as_ref()?)));
        let Some((object, held)) = held else { return View { seen, remaining: Duration::ZERO } };
        let lease = held.lease() + drift_margin(held.lease());
        let is_same = |sign: &Sign| sign.beat == held.beat;
        let end = known.as_ref().filter(|sign| is_same(sign)).map_or(now + lease, |sign| sign.end);
        let written = known.and_then(|sign| sign.written).filter(|(_, it)| *it == object.1);
        let written = if is_own { Some(object.clone()) } else { written };
        let sign = Sign { beat: held.beat.clone(), end, last: now, written };
        names.holders.insert(name.clone(), sign);
        names.sweep(now);
        View { seen, remaining: end.since(now) }
    }

    /// The last record, if this client was the last to write it. It may be old.
    pub(super) fn written(&self, name: &LockName, now: Instant) -> Option<View> {
        let names = self.0.lock();
        let sign = names.holders.get(name)?;
        Some(View { seen: Some(sign.written.clone()?), remaining: sign.end.since(now) })
    }
}

impl Names {
    /// Runs once each time the number of names has doubled, so its cost per name is constant.
    fn sweep(&mut self, now: Instant) {
        if self.holders.len() >= self.sweep_at {
            self.holders.retain(|_, sign| {
                sign.written.take_if(|_| now >= sign.end);
                now.since(sign.last) < REMEMBERED
            });
            self.sweep_at = FEW_NAMES.max(2 * self.holders.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use lock_core::{OwnerId, OwnerLabel};

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
        let record = Record { holder: Some(holder), ..Record::new(Nonce::of(beat)) };
        Some((record, Version(beat.to_string())))
    }

    fn at(millis: u64) -> Instant {
        Instant::default() + Duration::from_millis(millis)
    }

    #[test]
    fn a_lease_is_over_once_one_beat_was_seen_for_a_lease_and_the_margin() {
        let (observed, name) = (Observed::new(), LockName::new("job").unwrap());
        let look = |beat, millis| observed.look(&name, held(beat, 1_000), false, at(millis));
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

    fn job(number: u64) -> LockName {
        LockName::new(format!("job {number}")).unwrap()
    }

    #[test]
    fn what_nobody_asks_about_is_forgotten() {
        let observed = Observed::new();
        for number in 0..3 * FEW_NAMES as u64 {
            // Ten minutes each: more than the client remembers, together.
            observed.look(&job(number), held(1, 1_000), true, at(number * 600_000));
        }
        let kept = observed.0.lock().holders.len();
        assert!(kept <= FEW_NAMES, "{kept}");
        let last = job(3 * FEW_NAMES as u64 - 1);
        assert!(observed.written(&last, at(0)).is_some());
        observed.look(&last, None, false, at(0));
        assert!(observed.written(&last, at(0)).is_none());
    }

    #[test]
    fn only_the_record_of_an_own_lock_is_kept_and_until_the_lease_is_over() {
        let observed = Observed::new();
        let written = |number| {
            let names = observed.0.lock();
            names.holders[&job(number)].written.is_some()
        };
        observed.look(&job(0), held(1, 1_000), false, at(0));
        assert!(!written(0), "the lock of another client");
        observed.look(&job(1), held(1, 1_000), true, at(0));
        observed.look(&job(1), held(1, 1_000), false, at(1));
        assert!(written(1), "a read has found it unchanged");
        observed.look(&job(2), held(1, 1_000), true, at(0));
        observed.look(&job(2), held(2, 1_000), false, at(1));
        assert!(!written(2), "another client has changed it");
        for number in 3..FEW_NAMES as u64 {
            observed.look(&job(number), held(1, 1_000), true, at(2_000));
        }
        assert!(!written(1), "the lease is over, and the names were swept");
        assert!(written(3));
    }
}
