//! The known settings of a store, and the check around each grant that the store was not restored.

use std::{sync::Arc, time::Duration};

use etcd_client::{Compare, CompareOp, GetResponse, TxnResponse};
use lock_core::{
    ConnectionSecurity, Env as _, Error, ErrorKind, FencingToken, Guarantees, Instant, Mutex,
    SystemEnv, check_lease, check_token,
};

use super::{
    history::{ClusterState, History, HistoryToken, observe},
    quarantine::put_settings,
};
use crate::{
    guarantees::GuaranteeTracker,
    keys::{
        layout::KeyLayout,
        settings::{Record, Settings},
    },
    rpc::Rpc,
    tunables::TRIES,
};

/// Why nothing is granted after `init --restored`.
const TOLD: &str = "an operator reported that the cluster was restored";

#[derive(Debug)]
pub(crate) struct RestoreGuard {
    rpc: Rpc,
    layout: KeyLayout,
    /// `None` until the first look at the store.
    settings: Mutex<Option<Settings>>,
    guarantees: GuaranteeTracker,
    pub(crate) history: History,
    /// Held by the task that observes the cluster.
    observing: tokio::sync::Mutex<()>,
    /// The longest lease that this client was told.
    expected: Option<Duration>,
}

impl RestoreGuard {
    pub(crate) fn new(
        rpc: Rpc,
        layout: KeyLayout,
        connection: ConnectionSecurity,
        expected: Option<Duration>,
    ) -> Self {
        Self {
            rpc,
            layout,
            settings: Mutex::default(),
            guarantees: GuaranteeTracker::new(&Record::new(expected), connection),
            history: History::default(),
            observing: tokio::sync::Mutex::default(),
            expected,
        }
    }

    pub(crate) fn guarantees(&self) -> Arc<Guarantees> {
        self.guarantees.now()
    }

    /// Notes the shortest lease that etcd grants.
    pub(crate) fn set_shortest_lease(&self, shortest: Duration) {
        self.guarantees.set_shortest_lease(shortest, &self.settings().record);
    }

    /// The settings as they were last read; those of a new store before the first look.
    pub(crate) fn settings(&self) -> Settings {
        let known = self.settings.lock().clone();
        known.unwrap_or_else(|| Settings {
            record: Record::new(self.expected),
            revision: 0,
            now: 0,
            seen: Instant::default(),
        })
    }

    /// Notes the settings that a transaction at `now` has read or written.
    pub(crate) fn note(&self, seen: Option<(Record, i64)>, now: i64) {
        let mut settings = self.settings.lock();
        // The last to come, not the highest: after the restore of a snapshot revisions are lower, and a
        // token must not be taken for higher than it will be. One that comes late does no harm: the
        // next transaction compares.
        let (record, revision) = match (seen, settings.as_mut()) {
            (Some(seen), _) => seen,
            (None, Some(settings)) => {
                (settings.now, settings.seen) = (now, SystemEnv.now());
                return;
            }
            (None, None) => return,
        };
        *settings = Some(Settings { record: record.clone(), revision, now, seen: SystemEnv.now() });
        drop(settings);
        self.guarantees.follow(&record);
    }

    pub(crate) fn note_found(&self, found: &GetResponse, now: i64) -> Result<(), Error> {
        let found = Record::found(found);
        if let Ok(Some(seen)) = &found {
            self.note(Some(seen.clone()), now);
        } else {
            // The next grant finds out why they are gone, or cannot be read.
            self.history.doubt();
        }
        found?.map_or(Ok(()), |(record, _)| record.check_version())
    }

    /// Refuses older settings, as they were last read.
    pub(crate) fn check_version(&self) -> Result<(), Error> {
        let known = self.settings.lock();
        let checked = known.as_ref().map_or(Ok(()), |settings| settings.record.check_version());
        // An operator may have upgraded them since.
        checked.inspect_err(|_| self.history.doubt())
    }

    /// The same for a step that may be a client's only one: settings that are refused are read once more.
    pub(crate) async fn check_known_version(&self) -> Result<(), Error> {
        match self.check_version() {
            Ok(()) => Ok(()),
            Err(_) => self.history_token().await.map(drop),
        }
    }

    /// Refuses a lease that is longer than the settings allow. Others may have changed them since they were
    /// read, so that they are read once more before.
    pub(crate) async fn allow(
        &self,
        lease: Duration,
        longest: fn(&Record) -> Duration,
    ) -> Result<(), Error> {
        if lease > longest(&self.settings().record) {
            self.history.doubt();
            self.history_token().await?;
        }
        check_lease(lease, longest(&self.settings().record))
    }

    /// A token further ahead than the longest lease would outlast a loss of data.
    pub(crate) fn check_token(&self, token: FencingToken) -> Result<(), Error> {
        check_token(token, SystemEnv.wall_micros(), self.settings().record.longest_lease())
    }

    /// The name by the present settings: the known ones may have been lost, and another client may have written others.
    pub(crate) async fn name_of_store(&self) -> Result<String, Error> {
        self.history.doubt();
        self.history_token().await?;
        Ok(self.settings().record.name_of_store(&self.layout))
    }

    /// Before a transaction that may grant: makes sure of the cluster's history, and of the version of its settings.
    pub(crate) async fn history_token(&self) -> Result<HistoryToken, Error> {
        let token = self.history_of_any_version().await?;
        self.check_version()?;
        Ok(token)
    }

    /// The same where `init` may upgrade older settings.
    pub(crate) async fn history_of_any_version(&self) -> Result<HistoryToken, Error> {
        match self.history.token(&self.rpc) {
            Some(token) => Ok(token),
            // Boxed, like other rare steps, so that it does not make every call's future large.
            None => Box::pin(self.observe_again()).await,
        }
    }

    async fn observe_again(&self) -> Result<HistoryToken, Error> {
        // One observation is enough for all that ask.
        let _one = self.observing.lock().await;
        for _ in 0..TRIES {
            if let Some(token) = self.history.token(&self.rpc) {
                return Ok(token);
            }
            let since = self.history.so_far();
            let state = observe(&self.rpc, &self.layout).await?;
            let settled = match (self.history.judge(&state, since), &state.settings) {
                (None, Some((record, revision))) => {
                    Some((record.clone(), *revision, state.revision))
                }
                (None, None) => self.first_use(&state).await?,
                (Some(why), _) => self.begin_anew(&state, &why).await?,
            };
            // Otherwise another client wrote the settings: they are looked at again.
            self.settle(&state, settled);
        }
        Err(Error::new(ErrorKind::Unavailable, "others changed the settings again and again"))
    }

    /// Notes settings that were found or written; whether there are any.
    fn settle(&self, state: &ClusterState, settled: Option<(Record, i64, i64)>) -> bool {
        let Some((record, revision, now)) = settled else { return false };
        self.history.settle(state, &record, now);
        self.note(Some((record, revision)), now);
        true
    }

    /// After a transaction that granted: whether it was carried out in the history of its token. If not,
    /// the grant is given back, and the next token shows what happened.
    pub(crate) async fn stands(
        &self,
        token: &HistoryToken,
        answer: &TxnResponse,
        lease: i64,
    ) -> Result<bool, Error> {
        if self.history.is_same(&self.rpc, token, answer) {
            return Ok(true);
        }
        // The caller knows nothing of the grant, which may still be there.
        let unknown = |error: Error| {
            let message = "the lock was granted, and then the connection was lost";
            Error::new(ErrorKind::OutcomeUnknown, message).with_source(error)
        };
        if Box::pin(self.history_token()).await.map_err(unknown)?.history == token.history {
            return Ok(true);
        }
        Box::pin(self.rpc.revoke(lease)).await.map_err(|failure| unknown(failure.into()))?;
        Ok(false)
    }

    /// An operator says that the cluster was restored, which need not show. Others learn it from the settings.
    pub(crate) async fn begin_as_told(&self) -> Result<(), Error> {
        let _one = self.observing.lock().await;
        for _ in 0..TRIES {
            let state = observe(&self.rpc, &self.layout).await?;
            let settled = self.begin_anew(&state, TOLD).await?;
            if self.settle(&state, settled) {
                return Ok(());
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "others changed the settings again and again"))
    }

    /// The settings of an unused store.
    async fn first_use(&self, state: &ClusterState) -> Result<Option<(Record, i64, i64)>, Error> {
        let mut first = Record::first(self.expected);
        first.offset = SystemEnv.wall_micros().cast_signed();
        self.write_settings(state, first, None).await
    }

    /// The settings of a history that begins now, with the quarantine.
    async fn begin_anew(
        &self,
        state: &ClusterState,
        why: &str,
    ) -> Result<Option<(Record, i64, i64)>, Error> {
        tracing::warn!(why, "nothing is granted until every lease that may have been lost is over");
        let known = self.settings.lock().as_ref().map(|settings| settings.record.clone());
        let held = known.as_ref().map_or(0, |known| known.longest_held_micros);
        let mut next = match &state.settings {
            Some((record, _)) => record.clone(),
            // Lost with the rest: the best are those that this client knew.
            None => known.unwrap_or_else(|| Record::first(self.expected)),
        };
        // The lost locks may have been granted under settings that were lost, too.
        next.longest_held_micros = next.longest_held_micros.max(held);
        let span = next.longest_held();
        if why == TOLD && next.is_used_up(state.revision) {
            tracing::warn!(
                "the fencing tokens start anew: fences refuse them that admitted larger ones"
            );
            (next.offset, next.least) = (0, 0);
        }
        // No token that was granted leads the clock by more.
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX / 4);
        let highest = SystemEnv.wall_micros().saturating_add(micros);
        next.least = next.least.max(highest.cast_signed());
        // An operator's word counts also where the store has the quarantine off.
        let quarantine = (next.quarantine || why == TOLD).then_some((span, why));
        self.write_settings(state, next, quarantine).await
    }

    /// Writes settings in the place of those that were observed; `None` if another client was quicker.
    async fn write_settings(
        &self,
        state: &ClusterState,
        record: Record,
        quarantine: Option<(Duration, &str)>,
    ) -> Result<Option<(Record, i64, i64)>, Error> {
        let ClusterState { cluster, lead_at_least: lead, .. } = *state;
        let history = SystemEnv.random() as u64;
        let record = Record { history, cluster, lead, ..record };
        let before = state.settings.as_ref().map_or(0, |(_, revision)| *revision);
        let same = Compare::mod_revision(self.layout.settings(), CompareOp::Equal, before);
        let put = record.put(&self.layout);
        let now = put_settings(&self.rpc, &self.layout, same, put, quarantine).await?;
        Ok(now.map(|now| (record, now, now)))
    }
}
