//! Ends what an owner holds: release, also with the next request of the process, and abandon.

use std::{sync::Arc, time::Duration};

use lock_core::{
    Env as _, Error, ErrorKind, Grant, Mode, ReleaseOutcome, Released, Request, SystemEnv,
};
use zookeeper_client::CreateMode;

use super::{
    acquire::{judge, own_entry, replace, stem_of},
    enqueue::enqueued,
    sweep::now_and_then,
    view::EntryNode,
};
use crate::{
    error::Failure,
    keys::{
        data::{self, EntryData, to_bytes},
        entry::Entry,
    },
    session::{Ending, Read, Session, Write},
    store::{OwnEntry, Store},
    tunables::{TOMBSTONE_LIFE, TRIES},
};

/// Releases a grant, or keeps it without a session for `keep`.
pub(crate) async fn release(
    store: &Store,
    grant: &Grant,
    held: &OwnEntry,
    keep: Option<Duration>,
) -> Result<ReleaseOutcome, Error> {
    let session = store.session_of(held).await?;
    let keep = keep.filter(|keep| !keep.is_zero());
    let mut version = held.version;
    for _ in 0..TRIES {
        let is_released = match keep {
            // guard: release-version | S4 | kept::a_repeated_release_leaves_a_minimum_hold |
            //   Some(version) => None
            None => session.delete(&held.path, Some(version)).await?,
            Some(keep) => keep_for(store, &session, &held.path, version, keep).await?,
        };
        if is_released {
            return Ok(released(store, &session, held, keep, version + 1));
        }
        // The entry may live by another session of this owner by now.
        let [found] = session.read([Read::Data(&held.path)]).await?;
        let seen = EntryNode::new(Entry::at(&held.path), found);
        match (seen.filter(|seen| seen.belongs_to(grant.owner)), keep) {
            (Some(seen), _) if !seen.is_kept() => version = seen.stat.version,
            // The answer to an earlier try was lost.
            (Some(seen), Some(_)) => {
                return Ok(released(store, &session, held, keep, seen.stat.version));
            }
            _ => return Ok(ReleaseOutcome::NotHeld),
        }
    }
    Err(Error::new(ErrorKind::Unavailable, "the entry changes again and again"))
}

/// After the write of a release. An entry that is kept has this version.
fn released(
    store: &Store,
    session: &Arc<Session>,
    held: &OwnEntry,
    keep: Option<Duration>,
    version: i32,
) -> ReleaseOutcome {
    held.session.forget(&held.path);
    // Clients of other libraries do not know that it ends.
    if let Some(keep) = keep {
        session.end_at(&held.path, SystemEnv.now() + keep, Ending::Kept(version));
    }
    now_and_then(store, session);
    ReleaseOutcome::Released
}

/// `false` if the entry is not as it was.
pub(super) async fn keep_for(
    store: &Store,
    session: &Session,
    path: &str,
    version: i32,
    keep: Duration,
) -> Result<bool, Error> {
    let Some((bytes, _)) = session.read_one(path).await? else { return Ok(false) };
    let Some(mut data) = data::read::<EntryData>(&bytes) else { return Ok(false) };
    let until = store.sessions.clock.latest().saturating_add(keep.as_micros() as u64);
    data.kept_until_micros = Some(until);
    let kept = replace(session, path, &data, version, CreateMode::Persistent).await?;
    Ok(kept.is_some())
}

/// Releases and makes an entry for the next request of this process at the end of the queue, in
/// one step.
pub(crate) async fn release_and_enqueue(
    store: &Store,
    grant: &Grant,
    current: &OwnEntry,
    next: &Request,
) -> Result<Released, Error> {
    // No session is opened for it: that may fail, and the lock would not be released.
    let living = store.sessions.living(next.lease)?;
    let is_same = store.check_request(next).is_ok()
        && next.name == grant.name
        && living.is_some_and(|living| Arc::ptr_eq(&living, &current.session));
    if !is_same || next.mode == Mode::Shared {
        return Ok(Released::plain(release(store, grant, current, None).await?));
    }
    let session = &current.session;
    let path = stem_of(store, next);
    let entry = to_bytes(&EntryData::new(next, session.lease));
    let was_expected = session.expect(&path);
    let steps = [
        Write::Create(&path, &entry, CreateMode::EphemeralSequential),
        Write::Delete(&current.path, Some(current.version)),
    ];
    let (made, view) = tokio::join!(
        biased;
        session.write(&steps),
        store.view(session, &next.name, next.owner)
    );
    let made = match made {
        Ok(made) => made,
        // Nothing was made: the core enqueues the request itself.
        Err(Failure::Refused(..)) => {
            return Ok(Released::plain(release(store, grant, current, None).await?));
        }
        Err(failure) => return Err(failure.into()),
    };
    session.forget(&current.path);
    let placed = async {
        let own = own_entry(session, &path, made.into_iter().next(), was_expected)?;
        judge(store, next, own, view).await
    };
    // The release is done. A repeat of the request finds its entry.
    let placed = placed.await.unwrap_or(None);
    let answer = placed.map(|placed| enqueued(store, next, placed));
    Ok(Released::new(ReleaseOutcome::Released, answer))
}

/// Writes a tombstone first: after that no attempt of this owner is granted. Then deletes what the
/// owner has. It goes the way of the attempt, so it comes after it.
pub(crate) async fn abandon(store: &Store, request: &Request) -> Result<(), Error> {
    let session = store.sessions.for_lease(request.lease).await?;
    let tombstone = store.layout.tombstone(request.owner);
    session.end_at(&tombstone, SystemEnv.now() + TOMBSTONE_LIFE, Ending::Other);
    session.make(&tombstone, &[], CreateMode::Ephemeral).await?;
    let children = session.children(&store.layout.directory(&request.name)).await?;
    let entries = children.into_iter().map(Entry::read);
    let own: Vec<_> = entries.filter(|entry| entry.owner == Some(request.owner)).collect();
    for seen in store.entries(&session, &request.name, &own).await? {
        if seen.is_held_by(request.owner) && store.delete(&session, &request.name, &seen).await? {
            session.forget(&store.layout.entry(&request.name, &seen.entry));
        }
    }
    Ok(())
}
