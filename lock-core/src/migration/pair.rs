//! A lock that is held in both stores: taking it, renewing it, giving it back.

use std::sync::Arc;

use futures_util::future::join;

use super::Migration;
use crate::{
    Attempt, Error, ErrorKind, Grant, Instant, LossReason, Outcome, Release, Renewal, Request,
};

/// The grants of both stores, in the order of acquisition.
pub(super) struct Pair(pub(super) [Grant; 2]);

pub(super) fn pair_of(grant: &Grant) -> Result<&Pair, Error> {
    let state = grant.state.as_ref().and_then(|state| state.downcast_ref::<Pair>());
    state.ok_or_else(|| {
        let message = "the grant was not made in phase both";
        Error::new(ErrorKind::InvalidInput, message).at("migration", "find").on(&grant.name)
    })
}

impl Migration {
    /// Takes the stores in order, and lifts both to the larger token before anybody sees it.
    ///
    /// Whoever holds one store and is refused by the other keeps neither.
    pub(super) async fn acquire_both(&self, request: &Request) -> Result<Attempt, Error> {
        let first = match self.stores[0].try_acquire(request).await? {
            Attempt::Granted(grant) => grant,
            refused => return Ok(refused),
        };
        let second = match self.stores[1].try_acquire(request).await {
            Ok(Attempt::Granted(grant)) => grant,
            Ok(refused) => {
                self.give_back(0, &first).await?;
                return Ok(refused);
            }
            // The second store may hold it: the core repeats the attempt, or abandons it in both.
            Err(error) if error.is_ambiguous() => return Err(error),
            Err(error) => {
                self.give_back(0, &first).await?;
                return Err(error);
            }
        };
        let mut grants = [first, second];
        let token = grants[0].token.max(grants[1].token);
        for (store, grant) in self.stores.iter().zip(&mut grants) {
            if grant.token == token {
                continue;
            }
            if let Err(error) = store.raise(grant, token).await {
                if !error.is_ambiguous() {
                    self.give_back(1, &grants[1]).await?;
                    self.give_back(0, &grants[0]).await?;
                }
                return Err(error);
            }
            grant.token = token;
        }
        let mut grant = Grant::new(request, token);
        grant.from = grants[0].from.min(grants[1].from);
        grant.lease = grants[0].lease.min(grants[1].lease);
        grant.margin = grants[0].margin.max(grants[1].margin);
        grant.claim = grants.iter().filter_map(|grant| grant.claim).min();
        Ok(Attempt::Granted(grant.with_state(Arc::new(Pair(grants)))))
    }

    /// Releases one half of an attempt that failed. If that fails, the core must clean up.
    async fn give_back(&self, side: usize, grant: &Grant) -> Result<(), Error> {
        let released = self.stores[side].release(grant, Release::default()).await;
        released.map(drop).map_err(|error| {
            let message = "one store may have kept a grant that the other refused";
            let unknown = Error::new(ErrorKind::OutcomeUnknown, message).with_source(error);
            unknown.at("migration", "acquire").on(&grant.name)
        })
    }

    pub(super) async fn renew_both(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        // A grant of another phase has no halves here: it is answered without asking a store.
        let pairs: Vec<_> = grants.iter().map(|grant| pair_of(grant)).collect();
        let known = || pairs.iter().filter_map(|pair| pair.as_ref().ok());
        let firsts: Vec<_> = known().map(|pair| &pair.0[0]).collect();
        let seconds: Vec<_> = known().map(|pair| &pair.0[1]).collect();
        let (firsts, seconds) =
            join(self.stores[0].renew(&firsts, sent), self.stores[1].renew(&seconds, sent)).await;
        let mut answers = firsts.into_iter().zip(seconds);
        let mut together = Vec::with_capacity(pairs.len());
        for pair in pairs {
            together.push(match pair {
                Ok(pair) => match answers.next() {
                    Some(answers) => self.one_answer(pair, answers).await,
                    None => Renewal::Unknown(Error::new(ErrorKind::Unavailable, "no answer")),
                },
                Err(error) => Renewal::Unknown(error),
            });
        }
        together
    }

    async fn one_answer(&self, pair: &Pair, answers: (Renewal, Renewal)) -> Renewal {
        match answers {
            (Renewal::Lost(why), Renewal::Lost(_)) => Renewal::Lost(why),
            (Renewal::Lost(why), _) => self.lost(1, &pair.0[1], why).await,
            (_, Renewal::Lost(why)) => self.lost(0, &pair.0[0], why).await,
            (Renewal::Unknown(error), _) | (_, Renewal::Unknown(error)) => Renewal::Unknown(error),
            (
                Renewal::Renewed { from: one, lease: short },
                Renewal::Renewed { from: two, lease: long },
            ) => Renewal::Renewed { from: one.min(two), lease: short.min(long) },
        }
    }

    /// What is left of a lost lock would only keep others waiting; if this fails, for one lease.
    async fn lost(&self, left: usize, grant: &Grant, why: LossReason) -> Renewal {
        let _ = self.stores[left].release(grant, Release::default()).await;
        Renewal::Lost(why)
    }

    /// In reverse order. Both are tried, whatever the other says.
    pub(super) async fn release_both(
        &self,
        grant: &Grant,
        how: Release<'_>,
    ) -> Result<Outcome, Error> {
        let pair = pair_of(grant)?;
        let how = Release { keep: how.keep, next: None };
        let second = self.stores[1].release(&pair.0[1], how).await;
        let first = self.stores[0].release(&pair.0[0], how).await;
        Ok(match (second?.outcome, first?.outcome) {
            (Outcome::Released, Outcome::Released) => Outcome::Released,
            _ => Outcome::NotHeld,
        })
    }
}
