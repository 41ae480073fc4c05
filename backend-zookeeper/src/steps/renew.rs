//! Renews grants: one write for all of a session, and a read of their entries.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::join_all;
use lock_core::{Error, Grant, Instant, LossReason, Renewal};

use crate::{
    keys::settings::Settings,
    session::{Read, ReadResult, Session},
    store::{OwnEntry, Store},
    tunables::READ_AT_ONCE,
};

/// A grant, and its index in the batch.
type One<'a> = (usize, &'a Grant, &'a OwnEntry);

/// Renews the grants of each session. The answers are in the order of the grants.
pub(crate) async fn renew(store: &Store, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
    let mut sessions: BTreeMap<i64, Vec<One<'_>>> = BTreeMap::new();
    let mut renewals = Vec::new();
    for (index, grant) in grants.iter().copied().enumerate() {
        match OwnEntry::of(grant) {
            Ok(own) => sessions.entry(own.session.id()).or_default().push((index, grant, own)),
            Err(error) => renewals.push((index, Renewal::Unknown(error))),
        }
    }
    let of_sessions = sessions.into_values().map(|grants| of_session(store, grants, sent));
    renewals.extend(join_all(of_sessions).await.into_iter().flatten());
    renewals.sort_by_key(|(index, _)| *index);
    renewals.into_iter().map(|(_, renewal)| renewal).collect()
}

async fn of_session(store: &Store, grants: Vec<One<'_>>, sent: Instant) -> Vec<(usize, Renewal)> {
    let Some((_, _, held)) = grants.first() else { return Vec::new() };
    let session = Arc::clone(&held.session);
    let mut renewals = Vec::new();
    // What has ended, the keeper of the session removes: also what is lost below.
    let is_held = |(_, _, held): &One<'_>| session.extend(&held.path, sent + session.lease);
    let (held, mut lost): (Vec<_>, Vec<_>) =
        grants.into_iter().partition(|one| is_held(one) && session.is_alive());
    let renewed = session.renew(sent).await;
    let (from, lease) = (session.counts_from(sent), session.lease);
    store.enter_epoch_as_holder(&session).await;
    for some in held.chunks(READ_AT_ONCE) {
        let found = match &renewed {
            Ok(()) => read(store, &session, some).await,
            Err(error) => Err(error.clone()),
        };
        match found {
            Err(error) => {
                renewals.extend(some.iter().map(|one| (one.0, Renewal::Unknown(error.clone()))));
            }
            Ok(found) => {
                for (one, found) in some.iter().zip(found) {
                    let is_ours = found.data().is_some_and(|(_, stat)| {
                        stat.ephemeral_owner == session.id() && stat.version == one.2.version
                    });
                    // guard: renew-entry | S5 |
                    //   suite::a_renewal_does_not_bring_a_forced_grant_back | is_ours => true
                    match is_ours {
                        true => renewals.push((one.0, Renewal::Renewed { from, lease })),
                        false => lost.push(*one),
                    }
                }
            }
        }
    }
    let reasons = lost.iter().map(|(index, grant, _)| async move {
        (*index, Renewal::Lost(why_lost(store, grant).await))
    });
    renewals.extend(join_all(reasons).await);
    renewals
}

/// Reads the entries, and refuses a store of another version.
async fn read(
    store: &Store,
    session: &Session,
    grants: &[One<'_>],
) -> Result<Vec<ReadResult>, Error> {
    let settings = store.layout.settings();
    let entries = grants.iter().map(|(_, _, held)| Read::Data(&held.path));
    let asked: Vec<_> = entries.chain([Read::Data(&settings)]).collect();
    let mut found = session.read_all(&asked).await?;
    if let Some((settings, _)) = found.pop().and_then(ReadResult::data) {
        Settings::read(&settings)?;
    }
    Ok(found)
}

/// Why a grant was lost. It is lost even if the read fails.
async fn why_lost(store: &Store, grant: &Grant) -> LossReason {
    let directory = store.layout.directory(&grant.name);
    let children = async { store.session().await?.children(&directory).await };
    match children.await {
        Ok(children) if !children.is_empty() => LossReason::TakenOver,
        _ => LossReason::Gone,
    }
}
