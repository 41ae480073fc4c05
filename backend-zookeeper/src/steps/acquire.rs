//! An attempt to acquire a lock without waiting.

use std::sync::Arc;

use lock_core::{Attempt, Busy, Env as _, Error, ErrorKind, Mode, Quarantined, Request, SystemEnv};
use zookeeper_client::CreateMode;

use super::{
    grant::grant,
    view::{Seen, View},
};
use crate::{
    keys::{
        data::{EntryData, to_bytes},
        entry::{Entry, kind_of, stem},
    },
    session::{Ending, Made, Session, Write},
    store::{Held, Store},
    tunables::{POLL, TRIES},
};

/// What became of an entry that was just made, or found.
pub(super) enum Placed {
    /// It is the first, or nothing blocks it.
    Granted(lock_core::Grant),
    /// It stands behind these entries, of which the first holds the lock.
    Waiting(Held, Vec<Entry>, Busy),
    /// The owner was abandoned, or has released the lock. The entry is gone.
    Refused(Busy),
    Quarantined(Quarantined),
}

/// The lock is free if the new entry of the request is the first.
pub(crate) async fn try_acquire(store: &Store, request: &Request) -> Result<Attempt, Error> {
    store.check_request(request)?;
    // An entry that must wait would have to be removed again.
    if store.was_busy(&request.name)
        && let Some(busy) = look(store, request).await?
    {
        return Ok(Attempt::Busy(busy));
    }
    Ok(match place(store, request).await? {
        Placed::Granted(grant) => Attempt::Granted(grant),
        Placed::Waiting(held, _, busy) => {
            store.remove(&held).await;
            Attempt::Busy(busy)
        }
        Placed::Refused(busy) => Attempt::Busy(busy),
        Placed::Quarantined(quarantined) => Attempt::Quarantined(quarantined),
    })
}

/// Whether others hold the lock or wait for it. `None` if not, and if the request has an entry.
async fn look(store: &Store, request: &Request) -> Result<Option<Busy>, Error> {
    let session = store.sessions.for_lease(request.lease).await?;
    let mut view = store.view(&session, &request.name, None).await?;
    let kind = kind_of(request.mode);
    if view.entries.iter().any(|entry| entry.owner == Some(request.owner)) {
        return Ok(None);
    }
    view.entries.retain(|entry| entry.blocks(kind));
    let mut entries = std::mem::take(&mut view.entries);
    let first = store.first(&session, &request.name, &mut entries).await?;
    let first = first.filter(|first| !first.belongs_to(request.owner));
    let token = view.held_token(&entries);
    Ok(first.map(|first| first.busy(store, token, 1)))
}

/// Makes an entry, and reads whether it is the first. A repeat finds the entry of the first try.
pub(super) async fn place(store: &Store, request: &Request) -> Result<Placed, Error> {
    let session = store.sessions.for_lease(request.lease).await?;
    for _ in 0..TRIES {
        let (held, view) = make(store, &session, request).await?;
        if let Some(placed) = judge(store, request, held, view).await? {
            return Ok(placed);
        }
    }
    Err(Error::new(ErrorKind::Unavailable, "the entries of this request end again and again"))
}

/// The directory of the name, with what ZooKeeper adds a number to.
pub(super) fn stem_of(store: &Store, request: &Request) -> String {
    let directory = store.layout.directory(&request.name);
    format!("{directory}/{}", stem(request.owner, kind_of(request.mode)))
}

/// Makes an entry and reads the lock after that, in one round trip.
async fn make(
    store: &Store,
    session: &Arc<Session>,
    request: &Request,
) -> Result<(Held, Result<View, Error>), Error> {
    let (path, data) = (stem_of(store, request), to_bytes(&EntryData::new(request, session.lease)));
    loop {
        session.expect(&path);
        let steps = [Write::Create(&path, &data, CreateMode::EphemeralSequential)];
        // The first of the two is sent first.
        let (made, view) = tokio::join!(
            biased;
            session.write(&steps),
            store.view(session, &request.name, Some(request.owner))
        );
        match made {
            Ok(made) => {
                return Ok((held(session, &path, made.into_iter().next())?, view));
            }
            Err(failure) if failure.is_no_node() => {
                session.make(&store.layout.directory(&request.name), &[]).await?;
            }
            Err(failure) => return Err(failure.into()),
        }
    }
}

/// The state of an entry that was just made.
pub(super) fn held(session: &Arc<Session>, stem: &str, made: Option<Made>) -> Result<Held, Error> {
    if let Some(Made::Node(path, _)) = made
        && let Some(number) = Entry::at(&path).number
    {
        session.learn_name(stem, &path);
        return Ok(Held { session: Arc::clone(session), path, number, version: 0 });
    }
    Err(Error::new(ErrorKind::OutcomeUnknown, "ZooKeeper does not say which node it has made"))
}

/// Decides about an entry by what was read after it was made. `None` if the entry has ended. After
/// an error the keeper removes the entry: the error does not say that there is one.
pub(super) async fn judge(
    store: &Store,
    request: &Request,
    held: Held,
    view: Result<View, Error>,
) -> Result<Option<Placed>, Error> {
    let (session, path) = (Arc::clone(&held.session), held.path.clone());
    let placed = match view {
        Ok(view) => decide(store, request, held, view).await,
        Err(error) => Err(error),
    };
    if placed.is_err() {
        // guard: failed-attempt | S6 | faults::an_attempt_that_fails_leaves_no_entry |
        //   SystemEnv.now() => SystemEnv.now() + 100 * session.lease
        session.end_at(&path, SystemEnv.now(), Ending::Unused);
    }
    placed
}

async fn decide(
    store: &Store,
    request: &Request,
    mut held: Held,
    view: View,
) -> Result<Option<Placed>, Error> {
    let session = Arc::clone(&held.session);
    if let Some(quarantined) = view.quarantined {
        store.remove(&held).await;
        return Ok(Some(Placed::Quarantined(quarantined)));
    }
    if let Some(earlier) = earlier(store, request, &held, &view).await? {
        store.remove(&held).await;
        match adopt(store, request, earlier).await? {
            Some(adopted) => held = adopted,
            None => return Ok(None),
        }
    }
    let kind = kind_of(request.mode);
    let mut blockers = view.blockers(held.number, kind);
    blockers.retain(|entry| entry.node != held.node());
    let distance = blockers.len();
    let first = store.first(&session, &request.name, &mut blockers).await?;
    // guard: tombstone | S6 | suite::an_abandoned_owner_takes_nothing_any_more |
    //   view.is_abandoned => false
    if view.is_abandoned || first.as_ref().is_some_and(|it| it.belongs_to(request.owner)) {
        store.remove(&held).await;
        let busy = Busy::new(None, view.last_token(), POLL);
        let busy = first.map_or(busy, |it| it.busy(store, view.held_token(&blockers), 1));
        return Ok(Some(Placed::Refused(busy)));
    }
    if let Some(first) = first {
        store.note_busy(&request.name, true);
        let busy = first.busy(store, view.held_token(&blockers), distance);
        return Ok(Some(Placed::Waiting(held, blockers, busy)));
    }
    store.note_busy(&request.name, view.entries.len() > 1);
    let Some(directory) = view.directory else { return Ok(None) };
    let granted = grant(store, request, held, view.note, directory).await?;
    Ok(granted.map(Placed::Granted))
}

/// The entry of an earlier try of this request, or the lock that it was given.
async fn earlier(
    store: &Store,
    request: &Request,
    held: &Held,
    view: &View,
) -> Result<Option<Seen>, Error> {
    let is_other = |entry: &&Entry| entry.node != held.node();
    let own = view.entries.iter().filter(is_other).filter(|it| it.owner == Some(request.owner));
    let own: Vec<_> = own.cloned().collect();
    let seen = store.entries(&held.session, &request.name, &own).await?;
    Ok(seen.into_iter().find(|seen| seen.belongs_to(request.owner) && !seen.is_released()))
}

/// Moves an entry of this owner to a session of this client, if it lives by another one: that one
/// may have ended without this client's knowledge. `None` if the entry is gone.
pub(super) async fn adopt(
    store: &Store,
    request: &Request,
    seen: Seen,
) -> Result<Option<Held>, Error> {
    let (Some(mut data), Some(number)) = (seen.data, seen.entry.number) else { return Ok(None) };
    // A late repeat does not shorten the lease.
    let session = store.sessions.for_lease(data.lease().max(request.lease)).await?;
    let path = format!("{}/{}", store.layout.directory(&request.name), seen.entry.node);
    let mut version = seen.stat.version;
    if !session.take(&path) {
        return Ok(None);
    }
    if seen.stat.ephemeral_owner != session.id() {
        data.lease_millis = session.lease.as_millis() as u64;
        data.until_micros = None;
        let mode = CreateMode::Ephemeral;
        match replace(&session, &path, &data, version, mode).await? {
            Some(replaced) => version = replaced,
            None => return Ok(None),
        }
    }
    Ok(Some(Held { session, path, number, version }))
}

/// Replaces an entry with one of the same name and a higher version. `None` if others have changed
/// it.
pub(super) async fn replace(
    session: &Session,
    path: &str,
    data: &EntryData,
    version: i32,
    mode: CreateMode,
) -> Result<Option<i32>, Error> {
    let data = to_bytes(data);
    let mut steps = vec![Write::Delete(path, Some(version)), Write::Create(path, &data, mode)];
    // A new node has the version 0.
    steps.extend((0..=version).map(|from| Write::Put(path, &data, from)));
    match session.write(&steps).await {
        Ok(_) => Ok(Some(version + 1)),
        Err(failure) if failure.is_no_node() || failure.is_changed() => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

/// Whether a request is one of a reader.
pub(super) fn is_reader(request: &Request) -> bool {
    request.mode == Mode::Shared
}
