//! What follows a restore: nothing is granted until every lease that may have been lost is over.
//!
//! The quarantine is a key that every transaction which grants compares. It lives by a lease as long as
//! the longest that may be held: etcd itself counts it, so that no client's clock shortens it.

use std::time::Duration;

use etcd_client::{Compare, CompareOp, GetResponse, Txn, TxnOp, TxnResponse};
use lock_core::{Env as _, Error, ErrorKind, Quarantined, SystemEnv};

use crate::{
    history::{self, Look, Pass},
    settings::Record,
    store::{EtcdBackend, gets, put, revision},
};

/// How often it is tried to write what another client may have written meanwhile.
const TRIES: usize = 32;
/// Why nothing is granted after `init --restored`.
const TOLD: &str = "an operator said that the cluster was restored";

impl EtcdBackend {
    /// Before a transaction that may grant: makes sure of the cluster's history.
    pub(crate) async fn pass(&self) -> Result<Pass, Error> {
        match self.history.pass(&self.rpc) {
            Some(pass) => Ok(pass),
            // Boxed, as the other things that seldom happen: they are not to make every call large.
            None => Box::pin(self.look_again()).await,
        }
    }

    async fn look_again(&self) -> Result<Pass, Error> {
        // One look is enough for all that ask; the lock is the runtime's, made to be held over it.
        let _one = self.looking.lock().await;
        for _ in 0..TRIES {
            if let Some(pass) = self.history.pass(&self.rpc) {
                return Ok(pass);
            }
            let since = self.history.so_far();
            let look = history::look(&self.rpc, &self.layout).await?;
            let settled = match (self.history.judge(&look, since), &look.settings) {
                (None, Some((record, revision))) => {
                    Some((record.clone(), *revision, look.revision))
                }
                (None, None) => self.first_use(&look).await?,
                (Some(why), _) => self.begin_anew(&look, &why).await?,
            };
            // Otherwise somebody else wrote the settings: they are looked at again.
            if let Some((record, revision, now)) = settled {
                self.history.settle(&look, &record, now);
                self.note(Some((record, revision)), now);
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "others changed the settings again and again"))
    }

    /// After a transaction that granted: whether it was carried out in the history of its pass. If not,
    /// what it granted is given back, and the next pass tells what happened.
    pub(crate) async fn stands(
        &self,
        pass: &Pass,
        answer: &TxnResponse,
        lease: i64,
    ) -> Result<bool, Error> {
        if self.history.is_same(&self.rpc, pass, answer) {
            return Ok(true);
        }
        // The caller knows nothing of the grant, which may still be there.
        let unknown = |error: Error| {
            let message = "the lock was granted, and then the connection was lost";
            Error::new(ErrorKind::OutcomeUnknown, message).with_source(error)
        };
        if Box::pin(self.pass()).await.map_err(unknown)?.history == pass.history {
            return Ok(true);
        }
        Box::pin(self.rpc.revoke(lease)).await.map_err(|failure| unknown(failure.into()))?;
        Ok(false)
    }

    /// The settings of a store that nobody has used.
    async fn first_use(&self, look: &Look) -> Result<Option<(Record, i64, i64)>, Error> {
        let mut first = Record::first(self.expected);
        first.offset = SystemEnv.wall_micros().cast_signed();
        self.write_settings(look, first, None).await
    }

    /// An operator says that the cluster was restored, which need not show. Others learn it from the settings.
    pub(crate) async fn begin_as_told(&self) -> Result<(), Error> {
        let _one = self.looking.lock().await;
        for _ in 0..TRIES {
            let look = history::look(&self.rpc, &self.layout).await?;
            if let Some((record, revision, now)) = self.begin_anew(&look, TOLD).await? {
                self.history.settle(&look, &record, now);
                self.note(Some((record, revision)), now);
                return Ok(());
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "others changed the settings again and again"))
    }

    /// The settings of a history that begins now, with the quarantine.
    async fn begin_anew(
        &self,
        look: &Look,
        why: &str,
    ) -> Result<Option<(Record, i64, i64)>, Error> {
        tracing::warn!(why, "nothing is granted until every lease that may have been lost is over");
        let known = self.known_settings().map(|settings| settings.record);
        let held = known.as_ref().map_or(0, |known| known.longest_held_micros);
        let mut next = match &look.settings {
            Some((record, _)) => record.clone(),
            // Gone with the rest: what this client knew is the best there is.
            None => known.unwrap_or_else(|| Record::first(self.expected)),
        };
        // What was lost may have been granted under settings that were lost, too.
        next.longest_held_micros = next.longest_held_micros.max(held);
        let span = next.longest_held();
        if why == TOLD && next.is_used_up(look.revision) {
            tracing::warn!(
                "the fencing tokens start anew: fences refuse them that admitted larger ones"
            );
            (next.offset, next.least) = (0, 0);
        }
        // No token that was granted leads the clock by more.
        let highest = SystemEnv.wall_micros().saturating_add(micros(span));
        next.least = next.least.max(highest.cast_signed());
        // Who says so is not to be told in vain that the store has none.
        let quarantine = (next.quarantine || why == TOLD).then_some((span, why));
        self.write_settings(look, next, quarantine).await
    }

    /// Writes settings in the place of those that were looked at; `None` if others were quicker.
    async fn write_settings(
        &self,
        look: &Look,
        record: Record,
        quarantine: Option<(Duration, &str)>,
    ) -> Result<Option<(Record, i64, i64)>, Error> {
        let Look { cluster, lead, .. } = *look;
        let history = SystemEnv.random() as u64;
        let record = Record { history, cluster, lead, ..record };
        let before = look.settings.as_ref().map_or(0, |(_, revision)| *revision);
        let same = Compare::mod_revision(self.layout.settings(), CompareOp::Equal, before);
        let put = record.put(&self.layout);
        let now = self.put_settings(same, put, quarantine).await?;
        Ok(now.map(|now| (record, now, now)))
    }

    /// Puts settings on a condition, and holds everything back for a time; the revision, if the condition
    /// held.
    pub(crate) async fn put_settings(
        &self,
        condition: Compare,
        settings: TxnOp,
        quarantine: Option<(Duration, &str)>,
    ) -> Result<Option<i64>, Error> {
        let mut puts = vec![settings];
        let mut lease = None;
        if let Some((span, why)) = quarantine {
            // As leases are: of whole seconds, and not shorter than etcd's shortest.
            let timer = self.rpc.grant(span).await?;
            lease = Some(timer.id);
            puts.push(put(&self.layout.quarantine(), why.into(), timer.id));
        }
        let answer = self.rpc.txn(Txn::new().when([condition]).and_then(puts)).await?;
        if answer.succeeded() {
            return Ok(Some(revision(&answer)));
        }
        if let Some(lease) = lease {
            self.rpc.revoke(lease).await?;
        }
        Ok(None)
    }

    /// The condition that nothing is held back.
    pub(crate) fn not_quarantined(&self) -> Compare {
        Compare::version(self.layout.quarantine(), CompareOp::Equal, 0)
    }

    pub(crate) fn get_quarantine(&self) -> TxnOp {
        TxnOp::get(self.layout.quarantine(), None)
    }

    /// The quarantine, if it was read.
    pub(crate) async fn held_back(&self, got: &GetResponse) -> Result<Option<Quarantined>, Error> {
        let Some(pair) = got.kvs().first() else { return Ok(None) };
        let remaining = self.rpc.remaining(pair.lease()).await?;
        let why = pair.value_str().unwrap_or("unknown").to_owned();
        Ok(Some(Quarantined { remaining, why }))
    }

    /// The quarantine, if there is one.
    pub(crate) async fn quarantine(&self) -> Result<Option<Quarantined>, Error> {
        let answer = self.rpc.txn(Txn::new().and_then([self.get_quarantine()])).await?;
        match gets(&answer).first() {
            Some(got) => self.held_back(got).await,
            None => Ok(None),
        }
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX / 4)
}
