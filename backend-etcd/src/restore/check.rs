//! The settings as this client knows them, and the check around each grant that the cluster was not
//! restored.

use std::{sync::Arc, time::Duration};

use etcd_client::{Compare, CompareOp, GetResponse, TxnResponse};
use lock_core::{
    ConnectionSecurity, Env as _, Error, ErrorKind, FencingToken, Guarantees, Instant, Mutex,
    Request, SystemEnv, check_lease, check_token,
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

/// The reason for a quarantine after `init --restored`.
const REPORTED: &str = "an operator reported that the cluster was restored";

#[derive(Debug)]
pub(crate) struct RestoreCheck {
    rpc: Rpc,
    layout: KeyLayout,
    /// `None` until the store is first read.
    settings: Mutex<Option<Settings>>,
    guarantees: GuaranteeTracker,
    pub(crate) history: History,
    /// Held by the task that observes the cluster.
    observing: tokio::sync::Mutex<()>,
    /// The longest lease in this client's configuration.
    expected: Option<Duration>,
}

impl RestoreCheck {
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

    /// Records the shortest lease that etcd grants.
    pub(crate) fn set_shortest_lease(&self, shortest: Duration) {
        self.guarantees.set_shortest_lease(shortest, &self.settings().record);
    }

    /// The settings as they were last read. Before the first read, those of a new store.
    pub(crate) fn settings(&self) -> Settings {
        let known = self.settings.lock().clone();
        known.unwrap_or_else(|| Settings {
            record: Record::new(self.expected),
            revision: 0,
            now: 0,
            confirmed_at: Instant::default(),
        })
    }

    /// Records the settings that a transaction at revision `now` has read or written; `None` if it
    /// only confirmed the known ones.
    pub(crate) fn note(&self, found: Option<(Record, i64)>, now: i64) {
        let mut settings = self.settings.lock();
        // The latest answer counts, not the highest revision: after a restore, revisions are lower,
        // and a token must not be estimated higher than it will be. A late answer does no harm,
        // because the next transaction compares.
        let (record, revision) = match (found, settings.as_mut()) {
            (Some(found), _) => found,
            (None, Some(settings)) => {
                (settings.now, settings.confirmed_at) = (now, SystemEnv.now());
                return;
            }
            (None, None) => return,
        };
        let confirmed_at = SystemEnv.now();
        *settings = Some(Settings { record: record.clone(), revision, now, confirmed_at });
        drop(settings);
        self.guarantees.update(&record);
    }

    /// Records the settings that a transaction at revision `now` has read, and refuses those of
    /// another version.
    pub(crate) fn note_found(&self, found: &GetResponse, now: i64) -> Result<(), Error> {
        let found = Record::found(found);
        if let Ok(Some((record, revision))) = &found {
            let (mut record, known) = (record.clone(), self.settings());
            if *revision < known.revision {
                // The cluster may have been restored, and leases that the newer settings allowed
                // may still be held. The next grant observes the cluster.
                let held = known.record.longest_held_micros;
                record.longest_held_micros = record.longest_held_micros.max(held);
                self.history.doubt();
            }
            self.note(Some((record, *revision)), now);
        } else {
            // The next grant observes the cluster, and so finds out why the settings are gone or
            // unreadable.
            self.history.doubt();
        }
        found.map(drop)
    }

    /// Refuses a request whose floor is too high, or whose lease is longer than the settings allow.
    /// Before it refuses a lease, it reads the settings again, since others may have changed them.
    pub(crate) async fn check_request(
        &self,
        request: &Request,
        longest: fn(&Record) -> Duration,
    ) -> Result<(), Error> {
        if request.floor > FencingToken::ZERO {
            self.check_token(request.floor)?;
        }
        if request.lease > longest(&self.settings().record) {
            self.history.doubt();
            self.history_token().await?;
        }
        check_lease(request.lease, longest(&self.settings().record))
    }

    /// Refuses a token that is further ahead of the clock than the longest lease: after a loss of
    /// data, new tokens could be lower.
    pub(crate) fn check_token(&self, token: FencingToken) -> Result<(), Error> {
        check_token(token, SystemEnv.wall_micros(), self.settings().record.longest_lease())
    }

    /// The name of the store, from freshly read settings: the known ones may have been lost, and
    /// another client may have written new ones.
    pub(crate) async fn name_of_store(&self) -> Result<String, Error> {
        self.history.doubt();
        self.history_token().await?;
        Ok(self.settings().record.name_of_store(&self.layout))
    }

    /// Call this before a transaction that may grant. Checks the cluster's history.
    pub(crate) async fn history_token(&self) -> Result<HistoryToken, Error> {
        match self.history.token(&self.rpc) {
            Some(token) => Ok(token),
            // Boxed, like other rare steps, so that the futures of all calls stay small.
            None => Box::pin(self.observe_again()).await,
        }
    }

    async fn observe_again(&self) -> Result<HistoryToken, Error> {
        // One observation serves all callers that wait.
        let _one = self.observing.lock().await;
        for _ in 0..TRIES {
            if let Some(token) = self.history.token(&self.rpc) {
                return Ok(token);
            }
            let known = self.history.known_revision();
            let state = observe(&self.rpc, &self.layout).await?;
            let settled = match (self.history.contradiction(&state, known), &state.settings) {
                (None, Some((record, revision))) => {
                    Some((record.clone(), *revision, state.revision))
                }
                (None, None) => self.first_use(&state).await?,
                (Some(why), _) => self.begin_anew(&state, &why).await?,
            };
            // If another client wrote the settings meanwhile, the loop observes again.
            self.settle(&state, settled);
        }
        Err(Error::new(ErrorKind::Unavailable, "others changed the settings again and again"))
    }

    /// Records settings that were found or written. Returns whether there are any.
    fn settle(&self, state: &ClusterState, settled: Option<(Record, i64, i64)>) -> bool {
        let Some((record, revision, now)) = settled else { return false };
        self.history.settle(state, &record, now);
        self.note(Some((record, revision)), now);
        true
    }

    /// Call this after a transaction that granted. Returns whether it was carried out in the
    /// history of its token. If not, the grant is released, and the next `history_token` finds out
    /// what happened.
    pub(crate) async fn confirm_history(
        &self,
        token: &HistoryToken,
        answer: &TxnResponse,
        lease: i64,
    ) -> Result<bool, Error> {
        if self.history.is_same(&self.rpc, token, answer) {
            return Ok(true);
        }
        // The caller does not know about the grant, which may still exist.
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

    /// Starts the quarantine for a restore that an operator reports, and that clients may be unable
    /// to detect. Other clients learn of it from the settings.
    pub(crate) async fn begin_reported_restore(&self) -> Result<(), Error> {
        let _one = self.observing.lock().await;
        for _ in 0..TRIES {
            let state = observe(&self.rpc, &self.layout).await?;
            let settled = self.begin_anew(&state, REPORTED).await?;
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
        tracing::warn!(target: "leasehold", why, "nothing is granted until every lease that may have been lost is over");
        let known = self.settings.lock().as_ref().map(|settings| settings.record.clone());
        let held = known.as_ref().map_or(0, |known| known.longest_held_micros);
        let mut next = match &state.settings {
            Some((record, _)) => record.clone(),
            // The settings were lost too. The best replacement is what this client knew.
            None => known.unwrap_or_else(|| Record::first(self.expected)),
        };
        // The lost locks may have been granted under settings that were lost too.
        next.longest_held_micros = next.longest_held_micros.max(held);
        let span = next.longest_held();
        if why == REPORTED && next.is_used_up(state.revision) {
            tracing::warn!(target: "leasehold",
                "the fencing tokens start again: fences that have admitted larger tokens refuse the new ones"
            );
            (next.offset, next.least) = (0, 0);
        }
        // No granted token leads the clock by more than this.
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX / 4);
        let highest = SystemEnv.wall_micros().saturating_add(micros);
        next.least = next.least.max(highest.cast_signed());
        next.records_since = SystemEnv.wall_micros();
        // A reported restore starts a quarantine even if the store has quarantines off.
        let quarantine = (next.quarantine || why == REPORTED).then_some((span, why));
        self.write_settings(state, next, quarantine).await
    }

    /// Replaces the observed settings; `None` if another client has changed them meanwhile.
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
