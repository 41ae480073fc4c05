//! Detects restores: whether the cluster still has the history that this client knows.
//!
//! A snapshot that is restored with the flags of the installation keeps the ids of the cluster and
//! of the members. The term of the election starts again, so it may also be the same. But one
//! number falls, the *lead*: `index - revision`, which is the number of all requests in the log
//! minus the number of those that wrote. It falls because the revision comes with the snapshot, and
//! the log starts again. Within one history the lead never falls. The settings and each client
//! remember a lead. If a client finds a lower lead, a lower revision, or no settings although there
//! were some, it starts the quarantine.
//!
//! No single answer shows the lead exactly. A member reads its revision first and its index some
//! time later, and a write appears in the revision before it appears in the applied index. So an
//! observation is a read between two status requests: the applied index before it gives a lead that
//! was certainly reached (the lower bound), and the committed index after it gives a lead that was
//! certainly not exceeded (the upper bound). Only lower bounds are remembered, and only upper
//! bounds are compared with them.
//!
//! A restored log catches up after it has received as many requests that write nothing as the lost
//! log: those of other users, refused ones, and the ends of leases without keys. Then nobody can
//! distinguish the two logs, and an operator must report the restore: `init --restored`.
//!
//! A transaction cannot compare the lead. But a restore replaces the server process, which ends its
//! connections. So a transaction belongs to an observed history if no connection was begun between
//! the observation and the answer. Before each transaction that grants, the client gets a
//! [`HistoryToken`]. If a connection was begun since, the client believes the grant only after
//! another observation.

use etcd_client::{ResponseHeader, StatusResponse, Txn, TxnResponse};
use lock_core::{Env as _, Error, ErrorKind, Instant, Mutex, SystemEnv};

use crate::{
    keys::{layout::KeyLayout, settings::Record},
    rpc::{Rpc, gets, revision},
    tunables::{OBSERVATION_LIFE, OBSERVE_PAUSE, OBSERVE_TRIES},
};

/// The cluster's history, as this client knows it.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<Option<Known>>);

/// The last observation that found no restore.
#[derive(Clone, Debug)]
struct Known {
    token: HistoryToken,
    lead: i64,
    at: Instant,
    /// A later answer contradicts it.
    doubted: bool,
}

/// The history, and the connections, in which a transaction is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HistoryToken {
    /// The number of the history in the settings.
    pub(crate) history: u64,
    cluster: u64,
    term: u64,
    /// The highest revision in an answer so far.
    revision: i64,
    /// How many connections had been begun.
    opened: u64,
}

/// The state of the cluster, as one member reported it.
#[derive(Debug)]
pub(crate) struct ClusterState {
    pub(crate) cluster: u64,
    pub(crate) term: u64,
    /// The revision at which the settings were read.
    pub(crate) revision: i64,
    /// The upper bound of the lead when the settings were read.
    lead_at_most: i64,
    /// The lower bound of the lead when the settings were read.
    pub(crate) lead_at_least: i64,
    pub(crate) settings: Option<(Record, i64)>,
    opened: u64,
}

impl History {
    /// The token, if the cluster was observed recently, and no connection was begun since.
    pub(crate) fn token(&self, rpc: &Rpc) -> Option<HistoryToken> {
        self.token_at(rpc.members.opened(), SystemEnv.now())
    }

    fn token_at(&self, opened: u64, now: Instant) -> Option<HistoryToken> {
        let known = self.0.lock();
        let known = known.as_ref().filter(|known| !known.doubted)?;
        let is_fresh = now.since(known.at) < OBSERVATION_LIFE;
        (known.token.opened == opened && is_fresh).then_some(known.token)
    }

    /// Settings to be written with another offset, and with the highest lead that this client
    /// knows.
    pub(crate) fn with_offset(&self, record: &Record, offset: i64) -> Record {
        let mut record = Record { offset, ..record.clone() };
        if let Some(known) =
            self.0.lock().as_ref().filter(|known| known.token.history == record.history)
        {
            record.lead = record.lead.max(known.lead);
        }
        record
    }

    /// Whether a transaction was certainly carried out in the history of its token.
    pub(crate) fn is_same(&self, rpc: &Rpc, token: &HistoryToken, answer: &TxnResponse) -> bool {
        let fits = answer.header().is_some_and(|header| {
            header.cluster_id() == token.cluster
                && header.raft_term() == token.term
                && header.revision() >= token.revision
        });
        let mut known = self.0.lock();
        let Some(known) = known.as_mut().filter(|known| known.token.history == token.history)
        else {
            return false;
        };
        if !fits {
            known.doubted = true;
        }
        if !fits || known.doubted || rpc.members.opened() != token.opened {
            return false;
        }
        known.token.revision = known.token.revision.max(revision(answer));
        true
    }

    /// Makes the next token need a new observation.
    pub(crate) fn doubt(&self) {
        if let Some(known) = self.0.lock().as_mut() {
            known.doubted = true;
        }
    }

    /// How an observation contradicts the known history; `None` if it does not. `revision` is the
    /// answer of [`known_revision`](Self::known_revision) before the observation.
    pub(crate) fn contradiction(
        &self,
        state: &ClusterState,
        revision: Option<(u64, i64)>,
    ) -> Option<String> {
        let lead = self.0.lock().as_ref().map(|known| (known.token.history, known.lead));
        contradiction(state, revision, lead)
    }

    /// The history and the highest revision that are known, for a comparison with a later
    /// observation.
    pub(crate) fn known_revision(&self) -> Option<(u64, i64)> {
        self.0.lock().as_ref().map(|known| (known.token.history, known.token.revision))
    }

    /// Records a state without a contradiction, or after which the quarantine was started.
    pub(crate) fn settle(&self, state: &ClusterState, record: &Record, revision: i64) {
        let mut known = self.0.lock();
        let history = record.history;
        let lead = match known.as_ref().filter(|known| known.token.history == history) {
            Some(known) => known.lead.max(state.lead_at_least),
            None => state.lead_at_least,
        };
        let ClusterState { cluster, term, opened, .. } = *state;
        let token = HistoryToken { history, cluster, term, revision, opened };
        *known = Some(Known { token, lead, at: SystemEnv.now(), doubted: false });
    }
}

/// `revision` and `known_lead` are what this client knows, each with its history.
fn contradiction(
    state: &ClusterState,
    revision: Option<(u64, i64)>,
    known_lead: Option<(u64, i64)>,
) -> Option<String> {
    let lead = state.lead_at_most;
    let Some((record, _)) = &state.settings else {
        if revision.is_some() {
            return Some("the settings in etcd are gone".into());
        }
        // Each revision except the first belongs to a request. A cluster with more revisions than
        // requests was restored once.
        return (lead < -1).then(|| {
            "the cluster was once restored from a snapshot, and has no settings from before".into()
        });
    };
    if record.cluster != state.cluster {
        return Some("the settings in etcd are of another cluster".into());
    }
    if lead < record.lead {
        return Some(log_is_shorter(record.lead.saturating_sub(lead)));
    }
    // What a client has observed counts only within its history.
    match revision.filter(|(history, _)| *history == record.history) {
        Some((_, revision)) if state.revision < revision => {
            Some(format!("the cluster went back from revision {revision} to {}", state.revision))
        }
        Some(_) => known_lead
            .filter(|(of, known)| *of == record.history && lead < *known)
            .map(|(_, known)| log_is_shorter(known - lead)),
        None => None,
    }
}

fn log_is_shorter(requests: i64) -> String {
    format!("the cluster was restored from a snapshot: its log lacks {requests} requests or more")
}

/// Reads the settings, and the state of the member that answers.
pub(crate) async fn observe(rpc: &Rpc, layout: &KeyLayout) -> Result<ClusterState, Error> {
    for _ in 0..OBSERVE_TRIES {
        let opened = rpc.members.opened();
        let before = rpc.status().await?;
        let read = Txn::new().and_then([layout.get_settings()]);
        let answer = rpc.txn(read).await?;
        let after = rpc.status().await?;
        let (Some(header), Some(later)) = (answer.header(), after.header()) else {
            return Err(Error::new(ErrorKind::Unavailable, "etcd answered without a header"));
        };
        let found = gets(&answer);
        let settings = found.first().map(Record::found).transpose()?.flatten();
        if is_same_member(header, later) && opened == rpc.members.opened() {
            let (lead_at_least, lead_at_most) = lead_bounds(&before, header, &after);
            return Ok(ClusterState {
                cluster: header.cluster_id(),
                term: header.raft_term(),
                revision: header.revision(),
                lead_at_most,
                lead_at_least,
                settings,
                opened,
            });
        }
        // Usually this observation began the connection, and a repeat succeeds at once. Otherwise
        // another member answered.
        if opened == rpc.members.opened() {
            SystemEnv.sleep(OBSERVE_PAUSE).await;
        }
    }
    Err(Error::new(
        ErrorKind::Unavailable,
        "the connections to etcd break before the cluster can be observed",
    ))
}

/// The lower and the upper bound of the lead at a read, from the status before and after it.
fn lead_bounds(
    before: &StatusResponse,
    read: &ResponseHeader,
    after: &StatusResponse,
) -> (i64, i64) {
    let lead = |index| i64::try_from(index).unwrap_or(i64::MAX).saturating_sub(read.revision());
    (lead(before.raft_applied_index()), lead(after.raft_index()))
}

/// Whether the second answer is from the same member as the first. Another member may lag, even if
/// its revision is the same.
fn is_same_member(first: &ResponseHeader, later: &ResponseHeader) -> bool {
    first.cluster_id() == later.cluster_id()
        && first.member_id() == later.member_id()
        && later.revision() >= first.revision()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use etcd_client::proto::{PbResponseHeader, PbStatusResponse};
    use proptest::prelude::*;

    use super::*;

    fn record() -> Record {
        Record { history: 7, cluster: 1, lead: 20, ..Record::new(None) }
    }

    fn state(index: i64, revision: i64, record: Option<Record>) -> ClusterState {
        let settings = record.map(|record| (record, 2));
        let lead = index - revision;
        let (lead_at_most, lead_at_least) = (lead, lead);
        ClusterState {
            cluster: 1,
            term: 2,
            revision,
            lead_at_most,
            lead_at_least,
            settings,
            opened: 1,
        }
    }

    #[test]
    fn a_log_that_continues_is_no_restore() {
        assert_eq!(contradiction(&state(41, 21, Some(record())), None, None), None);
        assert_eq!(
            contradiction(&state(90, 60, Some(record())), Some((7, 60)), Some((7, 30))),
            None
        );
        assert_eq!(contradiction(&state(4, 1, None), None, None), None);
    }

    #[test]
    fn a_log_that_started_again_is_a_restore() {
        for (found, revision, known) in [
            (state(6, 25, Some(record())), None, None),
            // Long after the restore: many requests that wrote nothing, but fewer than before.
            (state(60, 45, Some(record())), None, None),
            (state(29, 10, Some(record())), None, None),
            (state(90, 59, Some(record())), Some((7, 60)), None),
            (state(90, 65, Some(record())), Some((7, 60)), Some((7, 26))),
            (state(90, 60, None), Some((7, 60)), None),
            (state(5, 90, None), None, None),
            (ClusterState { cluster: 9, ..state(90, 60, Some(record())) }, None, None),
        ] {
            let why = contradiction(&found, revision, known);
            assert!(why.is_some(), "{found:?} {revision:?} {known:?}");
        }
    }

    #[test]
    fn an_observation_is_from_one_member_that_does_not_lag() {
        let header = |cluster_id, member_id, revision| {
            let raft_term = 2;
            ResponseHeader(PbResponseHeader { cluster_id, member_id, revision, raft_term })
        };
        let first = header(1, 7, 20);
        assert!(is_same_member(&first, &header(1, 7, 20)));
        assert!(is_same_member(&first, &header(1, 7, 25)));
        for later in [header(1, 8, 20), header(1, 7, 19), header(2, 7, 20)] {
            assert!(!is_same_member(&first, &later), "{later:?}");
        }
    }

    fn history(at: Instant) -> History {
        let token = HistoryToken { history: 7, cluster: 1, term: 2, revision: 21, opened: 3 };
        History(Mutex::new(Some(Known { token, lead: 30, at, doubted: false })))
    }

    #[test]
    fn an_observation_is_valid_for_its_connections_and_for_a_minute() {
        let at = SystemEnv.now();
        let history = history(at);
        assert!(history.token_at(3, at).is_some());
        assert!(history.token_at(4, at).is_none());
        assert!(history.token_at(3, at + Duration::from_secs(59)).is_some());
        assert!(history.token_at(3, at + Duration::from_secs(60)).is_none());
        history.doubt();
        assert!(history.token_at(3, at).is_none());
    }

    #[test]
    fn settings_are_written_with_the_highest_known_lead() {
        let history = history(SystemEnv.now());
        let lead = |record| history.with_offset(&record, 1).lead;
        assert_eq!(lead(record()), 30);
        assert_eq!(lead(Record { lead: 35, ..record() }), 35);
        assert_eq!(lead(Record { history: 8, ..record() }), 20);
    }

    #[test]
    fn observations_of_another_history_do_not_count() {
        assert_eq!(
            contradiction(&state(90, 60, Some(record())), Some((6, 600)), Some((6, 300))),
            None
        );
    }

    /// A member at work. An entry of its log is first committed, then a write appears in the
    /// revision, then the entry counts as applied. `step` is its progress: three steps per entry.
    fn status(log: &[bool], step: usize) -> StatusResponse {
        let header = Some(header(log, step));
        let raft_index = step.div_ceil(3) as u64;
        let raft_applied_index = (step / 3) as u64;
        StatusResponse(PbStatusResponse {
            header,
            raft_index,
            raft_applied_index,
            ..PbStatusResponse::default()
        })
    }

    fn header(log: &[bool], step: usize) -> PbResponseHeader {
        let writes = log.iter().take((step + 1) / 3).filter(|writes| **writes).count();
        PbResponseHeader { revision: 1 + writes as i64, ..PbResponseHeader::default() }
    }

    proptest! {
        /// Whatever is written between the reads, and however late an entry counts as applied.
        #[test]
        fn a_later_observation_never_looks_like_a_restore(
            log in prop::collection::vec(prop::bool::weighted(0.9), 8),
            later in prop::collection::vec(0..4_usize, 6),
        ) {
            let mut step = 0;
            let at = later.iter().map(|later| { step += later; step }).collect::<Vec<_>>();
            let [first, second] = [&at[..3], &at[3..]].map(|at| {
                lead_bounds(&status(&log, at[0]), &ResponseHeader(header(&log, at[1])), &status(&log, at[2]))
            });
            prop_assert!(first.0 <= second.1, "{} was seen, and then {}", first.0, second.1);
        }
    }
}
