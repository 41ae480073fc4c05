//! A lock that is held in both stores: its two grants, which are renewed and released together.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::future::join;
use lock_core::{
    Backend, Error, ErrorKind, FencingToken, Grant, Instant, LossReason, Mode, ReleaseOptions,
    ReleaseOutcome, Renewal, Request,
};

/// The grants of both stores, in the order of acquisition.
pub(crate) struct Pair {
    pub(crate) grants: [Grant; 2],
    /// Which of them a release has released. If the other one failed, a repeat finds this one gone.
    released: [AtomicBool; 2],
}

impl Pair {
    /// Both as one grant: with the token that both stores have, and with the end of the lease that
    /// ends first.
    pub(crate) fn together(request: &Request, token: FencingToken, grants: [Grant; 2]) -> Grant {
        let shared = grants.iter().all(|grant| grant.mode == Mode::Shared);
        let mode = if shared { Mode::Shared } else { Mode::Exclusive };
        let mut grant = Grant::new(request, token).with_mode(mode);
        grant.from = grants[0].from.min(grants[1].from);
        grant.lease = grants[0].lease.min(grants[1].lease);
        grant.margin = grants[0].margin.max(grants[1].margin);
        grant.claim = grants.iter().filter_map(|grant| grant.claim).min();
        grant.doubtful = grants.iter().any(|grant| grant.doubtful);
        grant.with_state(Arc::new(Self { grants, released: Default::default() }))
    }

    pub(crate) fn of(grant: &Grant) -> Result<&Self, Error> {
        let state = grant.state.as_ref().and_then(|state| state.downcast_ref::<Self>());
        state.ok_or_else(|| {
            let message = "the grant was not made in phase both";
            Error::new(ErrorKind::InvalidInput, message).at("migration", "find").on(&grant.name)
        })
    }

    async fn release(
        &self,
        side: usize,
        store: &dyn Backend,
        options: ReleaseOptions<'_>,
    ) -> Result<ReleaseOutcome, Error> {
        let outcome = store.release(&self.grants[side], options).await?.outcome;
        if outcome == ReleaseOutcome::Released {
            self.released[side].store(true, Ordering::SeqCst);
        }
        Ok(outcome)
    }
}

pub(super) async fn renew(
    stores: &[Arc<dyn Backend>; 2],
    grants: &[&Grant],
    sent: Instant,
) -> Vec<Renewal> {
    // A grant of another phase is not a pair: it is answered without a call to a store.
    let pairs: Vec<_> = grants.iter().map(|grant| Pair::of(grant)).collect();
    // The lease of `grant` counts: the holder may want another lease than the waiter that made the
    // entry.
    let half = |side: usize| -> Vec<Grant> {
        let known = grants.iter().zip(&pairs);
        let known = known.filter_map(|(grant, pair)| Some((grant, pair.as_ref().ok()?)));
        let wanted = |(grant, pair): (&&Grant, &&Pair)| {
            let mut half = pair.grants[side].clone();
            half.lease = grant.lease;
            half
        };
        known.map(wanted).collect()
    };
    let (firsts, seconds) = (half(0), half(1));
    let (firsts, seconds): (Vec<_>, Vec<_>) = (firsts.iter().collect(), seconds.iter().collect());
    let (firsts, seconds) =
        join(stores[0].renew(&firsts, sent), stores[1].renew(&seconds, sent)).await;
    let mut answers = firsts.into_iter().zip(seconds);
    let one = |pair| match pair {
        Ok(_) => match answers.next() {
            Some(answers) => one_answer(answers),
            None => Renewal::Unknown(Error::new(ErrorKind::Unavailable, "no answer")),
        },
        Err(error) => Renewal::Unknown(error),
    };
    pairs.into_iter().map(one).collect()
}

/// The lock is renewed if both stores renewed it, and lost if one lost it. A missing answer is not
/// a loss.
///
/// If only one store has lost the lock, the grant in the other store is not released: it stays
/// until its lease ends. The holder was promised the time up to the end of its last confirmed
/// renewal, may have checked this a moment ago, and may be in the middle of its work. In the store
/// that has lost the lock, nothing blocks the next holder. So only the grant in the other store
/// keeps the next holder out until then (S1). The price is time: at most one lease from this answer
/// on. (Redlock leaves its votes for the same reason. A test found this there.)
fn one_answer(answers: (Renewal, Renewal)) -> Renewal {
    match answers {
        (Renewal::Lost(one), Renewal::Lost(two)) => {
            let taken = [one, two].contains(&LossReason::TakenOver);
            Renewal::Lost(if taken { LossReason::TakenOver } else { one })
        }
        (Renewal::Lost(why), _) | (_, Renewal::Lost(why)) => Renewal::Lost(why),
        (Renewal::Unknown(error), _) | (_, Renewal::Unknown(error)) => Renewal::Unknown(error),
        (
            Renewal::Renewed { from: one, lease: short },
            Renewal::Renewed { from: two, lease: long },
        ) => Renewal::Renewed { from: one.min(two), lease: short.min(long) },
    }
}

/// Releases both, in reverse order, even if the first release fails.
pub(super) async fn release(
    stores: &[Arc<dyn Backend>; 2],
    grant: &Grant,
    options: ReleaseOptions<'_>,
) -> Result<ReleaseOutcome, Error> {
    let pair = Pair::of(grant)?;
    // The next request is left to the core: it could not have a queue entry in only one store.
    let options = ReleaseOptions::new().with_keep(options.keep);
    let before = [0, 1].map(|side: usize| pair.released[side].load(Ordering::SeqCst));
    let second = pair.release(1, &*stores[1], options).await;
    let first = pair.release(0, &*stores[0], options).await;
    let now = match (first, second) {
        (Ok(first), Ok(second)) => [first, second],
        // The ambiguous error counts: by it the core knows that one grant may have been released.
        (Err(first), Err(second)) if second.is_ambiguous() && !first.is_ambiguous() => {
            return Err(second);
        }
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    let now = now.map(|outcome| outcome == ReleaseOutcome::Released);
    let done = |side: usize| now[side] || before[side];
    let released = now.contains(&true) && done(0) && done(1);
    Ok(if released { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld })
}
