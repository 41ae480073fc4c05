//! The `Backend` trait on top of the folder's steps. Waiters poll.

use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{
    Assumption, Attempt, Backend, Cursor, Env as _, Error, ErrorKind, FencingToken, Grant,
    Guarantees, Init, Instant, LockName, LockState, LossReason, Page, Promise, ReleaseOptions,
    ReleaseOutcome, Released, Renewal, Request, StoreSettings, SystemEnv, check_lease, check_token,
};

use super::folder::{Folder, POLL};

/// Longer than any test: `flock` keeps no order, so a renewal may wait long behind the calls of
/// other processes.
const LONGEST_LEASE: Duration = Duration::from_secs(300);

/// Locks in a folder.
#[derive(Debug)]
pub(crate) struct Directory {
    folder: Folder,
    promised: Arc<Guarantees>,
}

impl Directory {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        let mut promised = Guarantees::new(Duration::from_millis(50), LONGEST_LEASE);
        let text = "the folder is on a local disk of one machine, which does not restart while locks \
                    are held";
        promised.exclusion = Promise::Holds { assuming: vec![Assumption::new("local", text)] };
        let text = "if the folder is lost, the wall clock is past the last token";
        promised.tokens = Promise::Holds { assuming: vec![Assumption::new("clock", text)] };
        promised.longest_poll = POLL[1];
        promised.raise = true;
        promised.token_lead = LONGEST_LEASE;
        Self { folder: Folder::new(path), promised: Arc::new(promised) }
    }

    fn check(&self, operation: &'static str, token: FencingToken) -> Result<(), Error> {
        check_token(token, SystemEnv.wall_micros(), self.promised.longest_lease)
            .map_err(|error| error.at("directory", operation))
    }
}

#[async_trait]
impl Backend for Directory {
    fn kind(&self) -> &'static str {
        "directory"
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        Arc::clone(&self.promised)
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        self.check("acquire", request.floor)?;
        check_lease(request.lease, self.promised.longest_lease)
            .map_err(|error| error.at("directory", "acquire"))?;
        let ours = request.clone();
        let name = &request.name;
        let answer =
            self.folder.step("acquire", name, move |state, _, now| state.attempt(&ours, now));
        match answer.await? {
            Some(Ok(token)) => Ok(Attempt::Granted(Grant::new(request, token))),
            Some(Err(busy)) => Ok(Attempt::Busy(busy)),
            None => Err(Error::new(ErrorKind::Config, "the fencing tokens are used up")),
        }
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        let owner = request.owner;
        let step = self.folder.step("abandon", &request.name, move |state, name, now| {
            state.abandon(name, owner, now);
        });
        step.await
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        let mut answers = Vec::new();
        for grant in grants {
            let (owner, lease) = (grant.owner, grant.lease);
            let renewed = self.folder.step("renew", &grant.name, move |state, name, now| {
                let taken = state.held.contains_key(name);
                match state.of(name, owner).filter(|record| !record.kept) {
                    Some(record) => {
                        record.expires = record.expires.max(now + lease);
                        Renewal::Renewed { from: sent, lease }
                    }
                    None if taken => Renewal::Lost(LossReason::TakenOver),
                    None => Renewal::Lost(LossReason::Gone),
                }
            });
            answers.push(renewed.await.unwrap_or_else(Renewal::Unknown));
        }
        answers
    }

    async fn release(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error> {
        let (owner, keep) = (grant.owner, options.keep);
        let released =
            self.folder.step("release", &grant.name, move |state, name, now| {
                match state.of(name, owner) {
                    None => false,
                    Some(record) => match keep {
                        Some(keep) => {
                            (record.expires, record.kept) = (now + keep, true);
                            true
                        }
                        None => state.free(name),
                    },
                }
            });
        let outcome =
            if released.await? { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld };
        let next = match options.next {
            Some(next) => Some(self.enqueue(next).await?),
            None => None,
        };
        Ok(Released::new(outcome, next))
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        self.check("raise", token)?;
        let owner = grant.owner;
        let raised = self.folder.step("raise", &grant.name, move |state, name, _| {
            let record = state.of(name, owner);
            record.map(|record| record.token = record.token.max(token)).is_some()
        });
        if raised.await? {
            return Ok(());
        }
        Err(Error::new(ErrorKind::NotHeld, "the grant is gone").at("directory", "raise"))
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        let step = self.folder.step("inspect", name, |state, name, now| {
            let record = state.held.get(name)?;
            Some(record.state(name.clone(), now))
        });
        step.await
    }

    async fn list(&self, _from: Option<Cursor>) -> Result<Page, Error> {
        Ok(Page::new(self.folder.all().await?, None))
    }

    async fn force_release(&self, name: &LockName) -> Result<ReleaseOutcome, Error> {
        let freed = self.folder.step("release", name, |state, name, _| state.free(name)).await?;
        Ok(if freed { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld })
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        let refused = init.refuse_restored("it has no quarantine");
        refused.map_err(|error| error.at("directory", "init"))?;
        init.refuse_reset_tokens()?;
        init.refuse_records_complete()?;
        let fixed = self.promised.longest_lease;
        match init.longest_lease {
            Some(other) if other != fixed => {
                let message =
                    format!("a longest lease of {other:?} is not allowed; it is {fixed:?}");
                Err(Error::new(ErrorKind::Unsupported, message).at("directory", "init"))
            }
            _ => Ok(StoreSettings::new(fixed, None)),
        }
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        Ok(None)
    }

    async fn close(&self) {}
}
