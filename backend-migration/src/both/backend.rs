//! Phase `Both`: the trait `Backend`, in terms of the steps.

#![deny(clippy::missing_trait_methods)]

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{
    Attempt, Backend, Cursor, Enqueued, Error, ErrorKind, FencingToken, Grant, Guarantees, Holder,
    Init, Instant, LockName, LockState, Page, Quarantined, RecordRead, RecordWrite, ReleaseOptions,
    ReleaseOutcome, Released, Renewal, Request, StoreSettings, WriteOutcome,
};

use super::{
    acquire::Both,
    pair::{self, Pair},
};
use crate::{guarantees::of_both, records};

#[async_trait]
impl Backend for Both {
    fn kind(&self) -> &'static str {
        "migration"
    }

    async fn identity(&self) -> Result<String, Error> {
        let refusal = "two stores have no one identity";
        Err(Error::new(ErrorKind::Unsupported, refusal).at("migration", "identity"))
    }

    fn answers_at_once(&self) -> bool {
        false
    }

    fn was_busy(&self, _name: &LockName) -> bool {
        false
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        Arc::new(of_both(&self.stores))
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        self.attempt(request).await
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        self.queue(request).await
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        self.abandon_both(request).await
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        pair::renew(&self.stores, grants, sent).await
    }

    async fn release(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error> {
        pair::release(&self.stores, grant, options).await.map(Released::plain)
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        let pair = Pair::of(grant)?;
        self.stores[0].raise(&pair.grants[0], token).await?;
        self.stores[1].raise(&pair.grants[1], token).await
    }

    async fn reown(&self, grant: &Grant, _request: &Request) -> Result<Option<Grant>, Error> {
        let message = "a store that is being migrated hands no held lock over";
        Err(Error::new(ErrorKind::Unsupported, message).at("migration", "reown").on(&grant.name))
    }

    async fn read_record(&self, name: &LockName) -> Result<RecordRead, Error> {
        records::read_from_both(&self.stores, name).await
    }

    async fn write_record(
        &self,
        grant: &Grant,
        write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        records::write_to_both(&self.stores, grant, write).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        let first = self.stores[0].inspect(name).await?;
        let second = self.stores[1].inspect(name).await?;
        Ok(match (first, second) {
            (Some(first), Some(second)) => {
                let kept = if first.holder.is_some() { first.kept } else { second.kept };
                // A reader that holds both stores is counted in each.
                let readers = first.readers.max(second.readers);
                let holder = first.holder.or(second.holder);
                let token = first.token.max(second.token);
                let state = LockState::new(name.clone(), holder, token).with_kept(kept);
                Some(state.with_readers(readers))
            }
            (first, second) => first.or(second),
        })
    }

    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        // The first character of a cursor is the number of its store.
        let (side, inner) = match from.as_deref().map(|from| from.split_at_checked(1)) {
            None => (0, None),
            Some(Some(("0", rest))) => (0, Some(rest.to_owned())),
            Some(Some(("1", ""))) => (1, None),
            Some(Some(("1", rest))) => (1, Some(rest.to_owned())),
            Some(_) => {
                let message =
                    "the cursor is not one of this listing; it must be the `next` of a page";
                return Err(Error::new(ErrorKind::InvalidInput, message).at("migration", "list"));
            }
        };
        let mut page = self.stores[side].list(inner).await?;
        if side == 1 {
            // A lock that the same owner also holds in the first store was on the pages of that
            // store. A lock of an attempt that is under way may not have been.
            let mut fresh = Vec::with_capacity(page.locks.len());
            for lock in page.locks {
                let first =
                    self.stores[0].inspect(&lock.name).await?.and_then(|first| first.holder);
                let owner = |holder: &Holder| holder.owner;
                if first.as_ref().map(owner) != lock.holder.as_ref().map(owner) {
                    fresh.push(lock);
                }
            }
            page.locks = fresh;
        }
        page.next = match page.next {
            Some(next) => Some(format!("{side}{next}")),
            None => (side == 0).then(|| "1".to_owned()),
        };
        Ok(page)
    }

    async fn force_release(&self, name: &LockName) -> Result<ReleaseOutcome, Error> {
        let second = self.stores[1].force_release(name).await?;
        let first = self.stores[0].force_release(name).await?;
        Ok(if first == ReleaseOutcome::Released { first } else { second })
    }

    /// A grant is two, and no step of a store frees both.
    async fn force_release_if(
        &self,
        name: &LockName,
        _: FencingToken,
    ) -> Result<ReleaseOutcome, Error> {
        let message = "a migration in phase both cannot free one grant by its token; use \
                       force_release, or the URL of each store";
        let refusal = Error::new(ErrorKind::Unsupported, message);
        Err(refusal.at("migration", "force-release").on(name))
    }

    /// The longer of the two.
    async fn quarantine(&self) -> Result<Option<Quarantined>, Error> {
        let first = self.stores[0].quarantine().await?;
        let second = self.stores[1].quarantine().await?;
        Ok(first.into_iter().chain(second).max_by_key(|it| it.remaining))
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        if init.reset_tokens {
            let message =
                "a migration in phase both cannot set tokens back; use the URL of each store";
            return Err(Error::new(ErrorKind::Unsupported, message).at("migration", "init"));
        }
        let mut together = self.stores[0].init(init).await?;
        let second = self.stores[1].init(init).await?;
        together.longest_lease = together.longest_lease.min(second.longest_lease);
        together.grants_in = together.grants_in.max(second.grants_in);
        together.quarantine = match (together.quarantine, second.quarantine) {
            (Some(one), Some(two)) => Some(one && two),
            (one, two) => one.or(two),
        };
        Ok(together)
    }

    /// The larger difference of the two.
    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        let first = self.stores[0].clock_difference_micros().await?;
        let second = self.stores[1].clock_difference_micros().await?;
        Ok(first.into_iter().chain(second).max_by_key(|micros| micros.unsigned_abs()))
    }

    /// The higher of the two.
    async fn highest_token(&self) -> Result<Option<FencingToken>, Error> {
        let first = self.stores[0].highest_token().await?;
        Ok(first.max(self.stores[1].highest_token().await?))
    }

    async fn warnings(&self) -> Result<Vec<String>, Error> {
        let mut all = self.stores[0].warnings().await?;
        all.extend(self.stores[1].warnings().await?);
        Ok(all)
    }

    async fn close(&self) {
        self.stores[1].close().await;
        self.stores[0].close().await;
    }
}
