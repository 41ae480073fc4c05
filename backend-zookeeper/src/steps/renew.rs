//! Renews grants: one write for all of a session, and a read of their entries.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::join_all;
use lock_core::{Error, Grant, Instant, LossReason, Renewal};

use crate::{
    session::{Ask, Found, Session},
    store::{Held, Store},
    tunables::READ_AT_ONCE,
};

/// A grant, and its index in the batch.
type One<'a> = (usize, &'a Grant, &'a Held);

/// Renews the grants of each session.
pub(crate) async fn renew(
    store: &Store,
    grants: Vec<One<'_>>,
    sent: Instant,
) -> Vec<(usize, Renewal)> {
    let mut sessions: BTreeMap<i64, Vec<One<'_>>> = BTreeMap::new();
    for one in grants {
        sessions.entry(one.2.session.id()).or_default().push(one);
    }
    let renewals = sessions.into_values().map(|grants| of_session(store, grants, sent));
    join_all(renewals).await.into_iter().flatten().collect()
}

async fn of_session(store: &Store, grants: Vec<One<'_>>, sent: Instant) -> Vec<(usize, Renewal)> {
    let Some((_, _, held)) = grants.first() else { return Vec::new() };
    let session = Arc::clone(&held.session);
    let mut renewals = Vec::new();
    let (mut held, mut lost) = (Vec::new(), Vec::new());
    for one in grants {
        // What has ended, the keeper of the session removes: also what is lost below.
        let is_held = session.extend(&one.2.path, sent + session.lease);
        if is_held && session.is_alive() { held.push(one) } else { lost.push(one) }
    }
    let renewed = session.renew(sent).await;
    let from = session.counts_from(sent);
    // A holder that has lived through an election may know that nothing was lost.
    if let Err(error) = store.meet(&session, session.epoch()).await {
        tracing::trace!(target: "leasehold", %error, "an epoch was not opened");
    }
    for some in held.chunks(READ_AT_ONCE) {
        let found = match &renewed {
            Ok(()) => read(&session, some).await,
            Err(error) => Err(error.clone()),
        };
        match found {
            Err(error) => {
                renewals.extend(some.iter().map(|one| (one.0, Renewal::Unknown(error.clone()))));
            }
            Ok(found) => {
                for (one, found) in some.iter().zip(found) {
                    let stat = found.data().map(|(_, stat)| stat);
                    let is_ours = stat.is_some_and(|stat| {
                        stat.ephemeral_owner == session.id() && stat.version == one.2.version
                    });
                    // guard: renew-entry | S5 |
                    //   suite::a_renewal_does_not_bring_a_forced_grant_back | is_ours => true
                    match is_ours {
                        true => {
                            renewals.push((one.0, Renewal::Renewed { from, lease: session.lease }))
                        }
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

async fn read(session: &Session, grants: &[One<'_>]) -> Result<Vec<Found>, Error> {
    let asked: Vec<_> = grants.iter().map(|(_, _, held)| Ask::Data(&held.path)).collect();
    session.read(&asked).await
}

/// Why a grant was lost. It is lost even if the read fails.
async fn why_lost(store: &Store, grant: &Grant) -> LossReason {
    let directory = store.layout.directory(&grant.name);
    let children = async {
        let session = store.session().await?;
        Ok::<_, Error>(session.read(&[Ask::Children(&directory)]).await?.pop())
    };
    match children.await {
        Ok(Some(Found::Children(children))) if !children.is_empty() => LossReason::TakenOver,
        _ => LossReason::Gone,
    }
}
