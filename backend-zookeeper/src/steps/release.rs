//! Ends what an owner holds: release, also with the next request of the process, and abandon.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use lock_core::{Env as _, Error, Grant, Instant, ReleaseOutcome, Released, Request, SystemEnv};
use zookeeper_client::CreateMode;

use super::{
    acquire::{held, is_reader, judge, replace, stem_of},
    enqueue::enqueued,
    sweep::now_and_then,
};
use crate::{
    error::Failure,
    keys::{
        data::{self, EntryData, to_bytes},
        entry::in_order,
    },
    session::{Ask, Ending, Found, Session, StoreClock, Write},
    store::{Held, Store},
    tunables::{TOMBSTONE_LIFE, TRIES},
};

pub(super) fn outcome(done: bool) -> ReleaseOutcome {
    if done { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld }
}

/// Releases a grant, or keeps it without a session for `keep`.
pub(crate) async fn release(
    store: &Store,
    grant: &Grant,
    held: &Held,
    keep: Option<Duration>,
) -> Result<ReleaseOutcome, Error> {
    let session = store.session_of(held).await?;
    let keep = keep.filter(|keep| !keep.is_zero());
    let mut version = held.version;
    for _ in 0..TRIES {
        let released = match keep {
            // guard: release-version | S4 | kept::a_repeated_release_leaves_a_minimum_hold |
            //   Some(version) => None
            None => match session.write(&[Write::Delete(&held.path, Some(version))]).await {
                Ok(_) => Some(true),
                Err(failure) if failure.is_no_node() => Some(false),
                Err(failure) if failure.is_changed() => None,
                Err(failure) => return Err(failure.into()),
            },
            Some(keep) => keep_for(store, &session, held, version, keep).await?,
        };
        if let Some(released) = released {
            held.session.forget(&held.path);
            // Clients of other libraries do not know that it ends.
            if let Some(keep) = keep.filter(|_| released) {
                session.end_at(&held.path, SystemEnv.now() + keep, Ending::Kept(version + 1));
            }
            now_and_then(store, &session);
            return Ok(outcome(released));
        }
        // The entry has another owner by now, or lives by another session of this owner.
        let found = session.read_one(&held.path).await?;
        let seen = found.and_then(|(bytes, stat)| Some((data::read::<EntryData>(&bytes)?, stat)));
        match seen.filter(|(data, _)| data.owner == grant.owner && !data.released) {
            Some((_, stat)) => version = stat.version,
            None => return Ok(ReleaseOutcome::NotHeld),
        }
    }
    Err(Error::new(lock_core::ErrorKind::Unavailable, "the entry changes again and again"))
}

/// `None` if the entry is not as it was.
async fn keep_for(
    store: &Store,
    session: &Session,
    held: &Held,
    version: i32,
    keep: Duration,
) -> Result<Option<bool>, Error> {
    let Some((bytes, stat)) = session.read_one(&held.path).await? else { return Ok(Some(false)) };
    let data = data::read::<EntryData>(&bytes).filter(|_| stat.version == version);
    let Some(mut data) = data else { return Ok(None) };
    let until = store.sessions.clock.latest().saturating_add(keep.as_micros() as u64);
    (data.until_micros, data.released) = (Some(until), true);
    let kept = replace(session, &held.path, &data, version, CreateMode::Persistent).await?;
    Ok(kept.map(|_| true))
}

/// Ends a session. What is held then is detached, and outlives its client.
pub(crate) async fn end_session(session: &Session, clock: &StoreClock) {
    let held = session.held();
    for left in join_all(held.iter().map(|(path, at)| leave(session, clock, path, *at))).await {
        if let Err(error) = left {
            tracing::trace!(target: "leasehold", %error, "a detached lock ends with its session");
        }
    }
    session.close().await;
}

/// Leaves a held lock without a session, until its lease ends.
async fn leave(
    session: &Session,
    clock: &StoreClock,
    path: &str,
    at: Instant,
) -> Result<(), Error> {
    let found =
        session.read_one(path).await?.filter(|(_, stat)| stat.ephemeral_owner == session.id());
    let Some((bytes, stat)) = found else { return Ok(()) };
    let Some(mut data) = data::read::<EntryData>(&bytes) else { return Ok(()) };
    let left = at.since(SystemEnv.now()).as_micros() as u64;
    data.until_micros = Some(clock.latest().saturating_add(left));
    replace(session, path, &data, stat.version, CreateMode::Persistent).await?;
    Ok(())
}

/// Releases and makes an entry for the next request of this process at the end of the queue, in
/// one step.
pub(crate) async fn release_and_enqueue(
    store: &Store,
    grant: &Grant,
    current: &Held,
    next: &Request,
) -> Result<Released, Error> {
    let is_same = store.check_request(next).is_ok()
        && next.name == grant.name
        && current.session.is_alive()
        && Arc::ptr_eq(&store.sessions.for_lease(next.lease).await?, &current.session);
    if !is_same || is_reader(next) {
        return Ok(Released::plain(release(store, grant, current, None).await?));
    }
    let session = &current.session;
    let path = stem_of(store, next);
    let entry = to_bytes(&EntryData::new(next, session.lease));
    session.expect(&path);
    let steps = [
        Write::Create(&path, &entry, CreateMode::EphemeralSequential),
        Write::Delete(&current.path, Some(current.version)),
    ];
    let (made, view) = tokio::join!(biased; session.write(&steps), store.view(session, &next.name, Some(next.owner)));
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
        let held = held(session, &path, made.into_iter().next())?;
        match judge(store, next, held, view).await? {
            Some(placed) => enqueued(store, next, placed).await.map(Some),
            None => Ok::<_, Error>(None),
        }
    };
    // The release is done. A repeat of the request finds its entry.
    Ok(Released::new(ReleaseOutcome::Released, placed.await.unwrap_or(None)))
}

/// Writes a tombstone first: after that no attempt of this owner is granted. Then deletes what the
/// owner has. It goes the way of the attempt, so it comes after it.
pub(crate) async fn abandon(store: &Store, request: &Request) -> Result<(), Error> {
    let session = store.sessions.for_lease(request.lease).await?;
    let tombstone = store.layout.tombstone(request.owner);
    store.make_mark(&session, &tombstone, SystemEnv.now() + TOMBSTONE_LIFE).await?;
    let directory = store.layout.directory(&request.name);
    let found = session.read(&[Ask::Children(&directory)]).await?.pop();
    let Some(Found::Children(children)) = found else { return Ok(()) };
    let entries = in_order(children);
    // The first may have been handed over to this owner: then its name is another one's.
    let own = entries.iter().enumerate();
    let own = own.filter(|(at, entry)| *at == 0 || entry.owner == Some(request.owner));
    let own: Vec<_> = own.map(|(_, entry)| entry.clone()).collect();
    for seen in store.entries(&session, &request.name, &own).await? {
        if seen.belongs_to(request.owner) && !seen.is_released() {
            let path = format!("{directory}/{}", seen.entry.node);
            match session.write(&[Write::Delete(&path, Some(seen.stat.version))]).await {
                Err(failure) if !failure.is_no_node() && !failure.is_changed() => {
                    return Err(failure.into());
                }
                _ => session.forget(&path),
            }
        }
    }
    Ok(())
}
