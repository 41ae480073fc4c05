//! Whether the cluster still has the history that this client knows: the restore detector.
//!
//! A snapshot that is restored with the flags of the installation keeps the ids of cluster and members,
//! and the term of the election starts anew, so that it may be the same, too. What falls is the number of
//! requests that went through the log less the number of those that wrote (`index - revision`, here the
//! *lead*): the revision comes with the snapshot, and the log begins anew. Within one history the lead
//! never falls. The settings keep one that was seen, and so does each client; who finds a lower one, or a
//! lower revision, or no settings where some were, starts the quarantine.
//!
//! A restored log catches up once as many requests that write nothing were sent to it as the lost one had: those
//! of other users, refused ones, and the ends of leases that nothing is tied to. Nobody can tell the two apart
//! then, so that an operator is to tell: `init --restored`.
//!
//! A transaction cannot compare the lead. But a restore replaces the server's process, and ends its
//! connections: a transaction that was answered while no connection was begun since the lead was looked at
//! was carried out in that history. So every transaction that grants is framed by a [`Pass`], and one
//! during which a connection was begun is believed only after another look.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use etcd_client::{ResponseHeader, Txn, TxnOp, TxnResponse};
use lock_core::{Env as _, Error, ErrorKind, Instant, SystemEnv};

use crate::{
    layout::KeyLayout,
    rpc::Rpc,
    settings::Record,
    store::{gets, read_settings, revision},
};

/// How often a look is repeated that a new connection or a member that lags has spoilt.
const TRIES: usize = 64;
/// Before the next look at a member that lags.
const PAUSE: Duration = Duration::from_millis(10);
/// After this long the next grant waits for another look, also over the same connection.
const FRESH: Duration = Duration::from_secs(60);

/// What is known of the cluster's history.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<Option<Known>>);

/// A look at the cluster that found no restore.
#[derive(Clone, Debug)]
struct Known {
    pass: Pass,
    lead: i64,
    at: Instant,
    /// Something that was seen since does not fit.
    doubted: bool,
}

/// In which history, and by which connections, a transaction is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    /// The settings' name for the history.
    pub(crate) history: u64,
    cluster: u64,
    term: u64,
    /// The highest revision that was answered.
    revision: i64,
    /// How many connections had been begun.
    opened: u64,
}

/// A look at the cluster.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) cluster: u64,
    pub(crate) term: u64,
    /// The revision at which the settings were read.
    pub(crate) revision: i64,
    /// Of a member that had carried that out, a little later: `index - revision` is no less than the lead
    /// was then.
    pub(crate) index: u64,
    /// No more than the lead was at some instant until now: what may be kept.
    pub(crate) lead: i64,
    pub(crate) settings: Option<(Record, i64)>,
    opened: u64,
}

impl History {
    fn known(&self) -> MutexGuard<'_, Option<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The way in, if there was a look not long ago, and no connection was begun since.
    pub(crate) fn pass(&self, rpc: &Rpc) -> Option<Pass> {
        self.pass_at(rpc.members.opened(), SystemEnv.now())
    }

    fn pass_at(&self, opened: u64, now: Instant) -> Option<Pass> {
        let known = self.known();
        let known = known.as_ref().filter(|known| !known.doubted)?;
        let is_fresh = now.since(known.at) < FRESH;
        (known.pass.opened == opened && is_fresh).then_some(known.pass)
    }

    /// Settings that are to be written, with the highest lead that is known in them.
    pub(crate) fn keep(&self, mut record: Record) -> Record {
        if let Some(known) =
            self.known().as_ref().filter(|known| known.pass.history == record.history)
        {
            record.lead = record.lead.max(known.lead);
        }
        record
    }

    /// Whether a transaction was surely carried out in the history of its pass.
    pub(crate) fn is_same(&self, rpc: &Rpc, pass: &Pass, answer: &TxnResponse) -> bool {
        let fits = answer.header().is_some_and(|header| {
            header.cluster_id() == pass.cluster
                && header.raft_term() == pass.term
                && header.revision() >= pass.revision
        });
        let mut known = self.known();
        let Some(known) = known.as_mut().filter(|known| known.pass.history == pass.history) else {
            return false;
        };
        if !fits {
            known.doubted = true;
        }
        if !fits || known.doubted || rpc.members.opened() != pass.opened {
            return false;
        }
        known.pass.revision = known.pass.revision.max(revision(answer));
        true
    }

    /// Something does not fit: the next pass needs a look.
    pub(crate) fn doubt(&self) {
        if let Some(known) = self.known().as_mut() {
            known.doubted = true;
        }
    }

    /// What does not fit between a look and what is known; `None` if all does.
    pub(crate) fn judge(&self, look: &Look, since: Option<(u64, i64)>) -> Option<String> {
        let lead = self.known().as_ref().map(|known| (known.pass.history, known.lead));
        judge(look, since, lead)
    }

    /// The history and the highest revision that are known, to be compared with a later look.
    pub(crate) fn so_far(&self) -> Option<(u64, i64)> {
        self.known().as_ref().map(|known| (known.pass.history, known.pass.revision))
    }

    /// Takes a look over that fits, or after which the quarantine was started.
    pub(crate) fn settle(&self, look: &Look, record: &Record, revision: i64) {
        let mut known = self.known();
        let history = record.history;
        let lead = match known.as_ref().filter(|known| known.pass.history == history) {
            Some(known) => known.lead.max(look.lead),
            None => look.lead,
        };
        let Look { cluster, term, opened, .. } = *look;
        let pass = Pass { history, cluster, term, revision, opened };
        *known = Some(Known { pass, lead, at: SystemEnv.now(), doubted: false });
    }
}

fn judge(look: &Look, since: Option<(u64, i64)>, known: Option<(u64, i64)>) -> Option<String> {
    let lead = i64::try_from(look.index).unwrap_or(i64::MAX).saturating_sub(look.revision);
    let Some((record, _)) = &look.settings else {
        if since.is_some() {
            return Some("the settings in etcd are gone".into());
        }
        // Every revision but the first is of a request: a cluster with more of them was restored once.
        return (lead < -1).then(|| {
            "the cluster was once restored from a snapshot, and has no settings from before".into()
        });
    };
    if record.cluster != look.cluster {
        return Some("the settings in etcd are of another cluster".into());
    }
    if lead < record.lead {
        return Some("the cluster was restored from a snapshot: its log begins anew".into());
    }
    // What this client has seen counts only in the history in which it saw it.
    match since.filter(|(history, _)| *history == record.history) {
        Some((_, revision)) if look.revision < revision => {
            Some(format!("the cluster went back from revision {revision} to {}", look.revision))
        }
        Some(_) if known.is_some_and(|(of, seen)| of == record.history && lead < seen) => {
            Some("the cluster was restored from a snapshot: its log is shorter than it was".into())
        }
        _ => None,
    }
}

/// Reads the settings and the state of the member that it reads from.
pub(crate) async fn look(rpc: &Rpc, layout: &KeyLayout) -> Result<Look, Error> {
    for _ in 0..TRIES {
        let opened = rpc.members.opened();
        let read = Txn::new().and_then([TxnOp::get(layout.settings(), None)]);
        let answer = rpc.txn(read).await?;
        let status = rpc.status().await?;
        let (Some(header), Some(later)) = (answer.header(), status.header()) else {
            return Err(Error::new(ErrorKind::Unavailable, "etcd answered without a header"));
        };
        let found = gets(&answer);
        let settings = found.first().map(read_settings).transpose()?.flatten();
        if fits(header, later) && opened == rpc.members.opened() {
            // Servers before 3.4 do not tell what they have carried out.
            let index = match status.raft_applied_index() {
                0 => status.raft_index(),
                applied => applied,
            };
            return Ok(Look {
                cluster: header.cluster_id(),
                term: header.raft_term(),
                revision: header.revision(),
                index,
                // The server reads its index before its revision.
                lead: i64::try_from(index).unwrap_or(0).saturating_sub(later.revision()),
                settings,
                opened,
            });
        }
        // Begun by the look itself, most often; or another member answered.
        if opened == rpc.members.opened() {
            SystemEnv.sleep(PAUSE).await;
        }
    }
    Err(Error::new(ErrorKind::Unavailable, "the connections to etcd do not last for a look at it"))
}

/// Whether the second answer is of the same member as the first. Another one may lag, also where its
/// revision is the same.
fn fits(first: &ResponseHeader, later: &ResponseHeader) -> bool {
    first.cluster_id() == later.cluster_id()
        && first.member_id() == later.member_id()
        && later.revision() >= first.revision()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use etcd_client::proto::PbResponseHeader;

    use super::*;

    fn record() -> Record {
        Record { history: 7, cluster: 1, lead: 20, ..Record::new(None) }
    }

    fn look(index: u64, revision: i64, record: Option<Record>) -> Look {
        let settings = record.map(|record| (record, 2));
        Look { cluster: 1, term: 2, revision, index, lead: 0, settings, opened: 1 }
    }

    #[test]
    fn a_log_that_goes_on_is_no_restore() {
        assert_eq!(judge(&look(41, 21, Some(record())), None, None), None);
        assert_eq!(judge(&look(90, 60, Some(record())), Some((7, 60)), Some((7, 30))), None);
        assert_eq!(judge(&look(4, 1, None), None, None), None);
    }

    #[test]
    fn a_log_that_began_anew_is_one() {
        for (found, since, known) in [
            (look(6, 25, Some(record())), None, None),
            // Long after: many requests that wrote nothing, and yet fewer than there had been.
            (look(60, 45, Some(record())), None, None),
            (look(29, 10, Some(record())), None, None),
            (look(90, 59, Some(record())), Some((7, 60)), None),
            (look(90, 65, Some(record())), Some((7, 60)), Some((7, 26))),
            (look(90, 60, None), Some((7, 60)), None),
            (look(5, 90, None), None, None),
            (Look { cluster: 9, ..look(90, 60, Some(record())) }, None, None),
        ] {
            assert!(judge(&found, since, known).is_some(), "{found:?} {since:?} {known:?}");
        }
    }

    #[test]
    fn a_look_is_of_one_member_that_does_not_lag() {
        let header = |cluster_id, member_id, revision| {
            let raft_term = 2;
            ResponseHeader(PbResponseHeader { cluster_id, member_id, revision, raft_term })
        };
        let first = header(1, 7, 20);
        assert!(fits(&first, &header(1, 7, 20)) && fits(&first, &header(1, 7, 25)));
        for later in [header(1, 8, 20), header(1, 7, 19), header(2, 7, 20)] {
            assert!(!fits(&first, &later), "{later:?}");
        }
    }

    fn history(at: Instant) -> History {
        let pass = Pass { history: 7, cluster: 1, term: 2, revision: 21, opened: 3 };
        History(Mutex::new(Some(Known { pass, lead: 30, at, doubted: false })))
    }

    #[test]
    fn a_look_is_good_for_its_connections_and_for_a_minute() {
        let at = SystemEnv.now();
        let history = history(at);
        assert!(history.pass_at(3, at).is_some());
        assert!(history.pass_at(4, at).is_none());
        assert!(history.pass_at(3, at + Duration::from_secs(59)).is_some());
        assert!(history.pass_at(3, at + Duration::from_secs(60)).is_none());
        history.doubt();
        assert!(history.pass_at(3, at).is_none());
    }

    #[test]
    fn what_is_kept_follows_the_log() {
        let history = history(SystemEnv.now());
        assert_eq!(history.keep(record()).lead, 30);
        assert_eq!(history.keep(Record { lead: 35, ..record() }).lead, 35);
        assert_eq!(history.keep(Record { history: 8, ..record() }).lead, 20);
    }

    #[test]
    fn what_was_seen_in_another_history_does_not_count() {
        assert_eq!(judge(&look(90, 60, Some(record())), Some((6, 600)), Some((6, 300))), None);
    }
}
