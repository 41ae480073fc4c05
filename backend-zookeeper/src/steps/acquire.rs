//! An attempt to acquire a lock without waiting.

use std::sync::Arc;

use lock_core::{Attempt, Busy, Env as _, Error, ErrorKind, Quarantined, Request, SystemEnv};
use zookeeper_client::CreateMode;

use super::{
    grant::grant,
    view::{EntryNode, View},
};
use crate::{
    keys::{
        data::{EntryData, to_bytes},
        entry::{Entry, kind_of, stem},
    },
    session::{Ending, Session, Write, WriteResult},
    store::{OwnEntry, Store},
    tunables::{POLL, TRIES},
};

/// What became of an entry that was just made, or found.
#[derive(Debug)]
pub(super) enum Placement {
    /// It is the first, or nothing blocks it.
    Granted(lock_core::Grant),
    /// It waits for others. The predecessor is the path of the last of them.
    Waiting {
        own: OwnEntry,
        predecessor: String,
        busy: Busy,
    },
    /// The owner was abandoned, or has released the lock. The entry is gone.
    Refused(Busy),
    Quarantined(Quarantined),
}

/// The lock is free if the new entry of the request is the first.
pub(crate) async fn try_acquire(store: &Store, request: &Request) -> Result<Attempt, Error> {
    store.check_request(request)?;
    Ok(match place(store, request).await? {
        Placement::Granted(grant) => Attempt::Granted(grant),
        Placement::Waiting { own, busy, .. } => {
            store.remove(&own).await;
            Attempt::Busy(busy)
        }
        Placement::Refused(busy) => Attempt::Busy(busy),
        Placement::Quarantined(quarantined) => Attempt::Quarantined(quarantined),
    })
}

/// Makes an entry, and reads whether it is the first. A repeat finds the entry of the first try.
pub(super) async fn place(store: &Store, request: &Request) -> Result<Placement, Error> {
    let session = store.sessions.for_lease(request.lease).await?;
    for _ in 0..TRIES {
        let (own, view) = make(store, &session, request).await?;
        if let Some(placed) = judge(store, request, own, view).await? {
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
) -> Result<(OwnEntry, Result<View, Error>), Error> {
    let (path, data) = (stem_of(store, request), to_bytes(&EntryData::new(request, session.lease)));
    loop {
        let was_expected = session.expect(&path);
        let steps = [Write::Create(&path, &data, CreateMode::EphemeralSequential)];
        // The first of the two is sent first.
        let (made, view) = tokio::join!(
            biased;
            session.write(&steps),
            store.view(session, &request.name, request.owner)
        );
        match made {
            Ok(made) => {
                let made = made.into_iter().next();
                return Ok((own_entry(session, &path, made, was_expected)?, view));
            }
            Err(failure) if failure.is_no_node() => {
                let directory = store.layout.directory(&request.name);
                session.make(&directory, &[], CreateMode::Persistent).await?;
            }
            Err(failure) => return Err(failure.into()),
        }
    }
}

/// The state of an entry that was just made.
pub(super) fn own_entry(
    session: &Arc<Session>,
    stem: &str,
    made: Option<WriteResult>,
    was_expected: bool,
) -> Result<OwnEntry, Error> {
    if let Some(WriteResult::Node(path, _)) = made
        && let Some(number) = Entry::at(&path).number
    {
        session.learn_name(stem, &path, was_expected);
        return Ok(OwnEntry { session: Arc::clone(session), path, number, version: 0 });
    }
    Err(Error::new(ErrorKind::OutcomeUnknown, "ZooKeeper does not say which node it has made"))
}

/// Decides about an entry that was just made, by what was read after that. `None` if it has ended.
/// After an error the keeper removes the entry: the error does not say that there is one.
pub(super) async fn judge(
    store: &Store,
    request: &Request,
    own: OwnEntry,
    view: Result<View, Error>,
) -> Result<Option<Placement>, Error> {
    let (session, path) = (Arc::clone(&own.session), own.path.clone());
    let placed = async {
        let view = view?;
        if let Some(quarantined) = view.quarantined {
            store.remove(&own).await;
            return Ok(Some(Placement::Quarantined(quarantined)));
        }
        let Some(earlier) = earlier(store, request, &own, &view).await? else {
            return decide(store, request, own, view).await;
        };
        store.remove(&own).await;
        match adopt(store, request, earlier).await? {
            Some(adopted) => decide(store, request, adopted, view).await,
            None => Ok(None),
        }
    };
    let placed = placed.await;
    if matches!(placed, Err(_) | Ok(Some(Placement::Quarantined(_)))) {
        // guard: failed-attempt | S6 | faults::an_attempt_that_fails_leaves_no_entry |
        //   SystemEnv.now() => SystemEnv.now() + 100 * session.lease
        session.end_at(&path, SystemEnv.now(), Ending::Unused);
    }
    placed
}

/// Decides about an entry of this client. `None` if it has ended.
pub(super) async fn decide(
    store: &Store,
    request: &Request,
    own: OwnEntry,
    mut view: View,
) -> Result<Option<Placement>, Error> {
    for _ in 0..TRIES {
        if !view.entries.iter().any(|entry| entry.node == own.node()) {
            store.remove(&own).await;
            return Ok(None);
        }
        let mut blockers = view.blockers(own.number, kind_of(request.mode));
        let distance = blockers.len();
        let first = store.first(&own.session, &request.name, &mut blockers).await?;
        // guard: tombstone | S6 | suite::an_abandoned_owner_takes_nothing_any_more |
        //   view.is_abandoned => false
        if view.is_abandoned || first.as_ref().is_some_and(|it| it.belongs_to(request.owner)) {
            store.remove(&own).await;
            let busy = Busy::new(None, view.last_token(), POLL);
            let busy = first.map_or(busy, |it| it.busy(store, view.held_token(&blockers), 1));
            return Ok(Some(Placement::Refused(busy)));
        }
        if let (Some(first), Some(last)) = (first, blockers.last()) {
            store.remember_busy(&request.name, true);
            let busy = first.busy(store, view.held_token(&blockers), distance);
            let predecessor = store.layout.entry(&request.name, last);
            return Ok(Some(Placement::Waiting { own, predecessor, busy }));
        }
        if let Some(quarantined) = view.quarantined {
            return Ok(Some(Placement::Quarantined(quarantined)));
        }
        if distance == 0 {
            store.remember_busy(&request.name, view.entries.len() > 1);
            return Ok(grant(store, request, own, view).await?.map(Placement::Granted));
        }
        // What was before it has gone. Between two reads the servers may have gone back, so one
        // read must show the entry, and nothing before it.
        view = store.view(&own.session, &request.name, request.owner).await?;
    }
    Err(Error::new(ErrorKind::Unavailable, "what is before this entry changes again and again"))
}

/// The entry of an earlier try of this request, or the lock that it was given.
async fn earlier(
    store: &Store,
    request: &Request,
    own: &OwnEntry,
    view: &View,
) -> Result<Option<EntryNode>, Error> {
    let is_earlier =
        |entry: &&Entry| entry.owner == Some(request.owner) && entry.node != own.node();
    let found: Vec<_> = view.entries.iter().filter(is_earlier).cloned().collect();
    let found = store.entries(&own.session, &request.name, &found).await?;
    Ok(found.into_iter().find(|entry| entry.is_held_by(request.owner)))
}

/// Moves an entry of this owner to a session of this client, if it lives by another one: that one
/// may have ended without this client's knowledge. `None` if the entry is gone.
async fn adopt(
    store: &Store,
    request: &Request,
    earlier: EntryNode,
) -> Result<Option<OwnEntry>, Error> {
    let (Some(mut data), Some(number)) = (earlier.data, earlier.entry.number) else {
        return Ok(None);
    };
    // A late repeat does not shorten the lease.
    let session = store.sessions.for_lease(data.lease().max(request.lease)).await?;
    let path = store.layout.entry(&request.name, &earlier.entry);
    let mut version = earlier.stat.version;
    if !session.take(&path, SystemEnv.now() + session.lease) {
        return Ok(None);
    }
    if earlier.stat.ephemeral_owner != session.id() {
        data.lease_millis = session.lease.as_millis() as u64;
        match replace(&session, &path, &data, version, CreateMode::Ephemeral).await? {
            Some(replaced) => version = replaced,
            None => return Ok(None),
        }
    }
    Ok(Some(OwnEntry { session, path, number, version }))
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
        Err(failure) if failure.is_changed() => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}
