//! Gives a held lock to a new owner, and raises the token of a held lock.

use lock_core::{Error, ErrorKind, FencingToken, Grant, Request};
use zookeeper_client::CreateMode;

use super::{
    acquire::{adopt, replace},
    grant::{Put, put_note},
    view::{Seen, View},
};
use crate::{
    keys::{data::EntryData, data::Note, entry::Kind},
    store::{Held, Store},
    tunables::TRIES,
};

/// The entry stays, and with it the token. It gets the new owner, and the session of the new
/// owner's lease. `None` if the grant does not hold the lock alone.
pub(crate) async fn reown(
    store: &Store,
    grant: &Grant,
    request: &Request,
) -> Result<Option<Grant>, Error> {
    store.check_request(request)?;
    let session = store.sessions.for_lease(request.lease).await?;
    // Its server may be behind the one that made the entry.
    session.touch().await?;
    for _ in 0..TRIES {
        let view = store.view(&session, &grant.name, Some(request.owner)).await?;
        if let Some(quarantined) = view.quarantined {
            return Err(Error::from(quarantined));
        }
        let mut entries = view.entries.clone();
        let Some(first) = store.first(&session, &grant.name, &mut entries).await? else {
            return Ok(None);
        };
        let is_alone = first.entry.kind == Kind::Writer && !first.is_released();
        let token = view.token_of(&first.entry);
        if !is_alone || token != grant.token || view.is_abandoned {
            return Ok(None);
        }
        let held = match first.belongs_to(request.owner) {
            true => adopt(store, request, first).await?,
            false if first.belongs_to(grant.owner) => give(store, request, first).await?,
            false => return Ok(None),
        };
        let Some(held) = held else { continue };
        // The owner may have been abandoned meanwhile.
        let tombstone = store.layout.tombstone(request.owner);
        if session.read_one(&tombstone).await?.is_some() {
            store.remove(&held).await;
            return Ok(None);
        }
        if !held.session.hold(&held.path) {
            continue;
        }
        let mut new = Grant::new(request, token);
        new.lease = held.session.lease;
        new.from = held.session.counts_from(request.sent);
        return Ok(Some(new.with_state(std::sync::Arc::new(held))));
    }
    Err(Error::new(ErrorKind::Unavailable, "the entry changes again and again"))
}

async fn give(store: &Store, request: &Request, seen: Seen) -> Result<Option<Held>, Error> {
    let Some(number) = seen.entry.number else { return Ok(None) };
    let session = store.sessions.for_lease(request.lease).await?;
    let path = format!("{}/{}", store.layout.directory(&request.name), seen.entry.node);
    if !session.take(&path) {
        return Ok(None);
    }
    let data = EntryData::new(request, session.lease);
    let mode = CreateMode::Ephemeral;
    let version = replace(&session, &path, &data, seen.stat.version, mode).await?;
    Ok(version.map(|version| Held { session, path, number, version }))
}

/// Raises the stored token of a held grant. `false` if the lock is no longer held.
pub(crate) async fn raise(
    store: &Store,
    grant: &Grant,
    held: &Held,
    token: FencingToken,
) -> Result<bool, Error> {
    let path = store.layout.note(&grant.name);
    let held = &Held { session: store.session_of(held).await?, ..held.clone() };
    for _ in 0..TRIES {
        let view = store.view(&held.session, &grant.name, None).await?;
        let Some((view, note, stat)) = with_note(view) else { return Ok(false) };
        let is_held = view.holders().iter().any(|entry| entry.node == held.node());
        if !is_held {
            return Ok(false);
        }
        let directory = view.directory.map_or(0, |stat| stat.czxid);
        let known = note.token_of(held.number, directory);
        let token = known.map_or(token, |known| known.max(token));
        let raised = Note { number: held.number, token: token.get(), directory, ..note };
        match put_note(held, &path, &raised, stat.version).await? {
            Put::Done => return Ok(true),
            Put::Gone => return Ok(false),
            Put::Changed => {}
        }
    }
    Err(Error::new(ErrorKind::Unavailable, "others changed the token again and again"))
}

fn with_note(mut view: View) -> Option<(View, Note, zookeeper_client::Stat)> {
    let (note, stat) = view.note.take()?;
    Some((view, note, stat))
}
