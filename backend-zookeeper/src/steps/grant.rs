//! Makes the token of an entry that has become the first, and so a holder.

use lock_core::{Error, ErrorKind, FencingToken, Grant, Mode, Request};
use zookeeper_client::{CreateMode, Stat};

use super::view::read_note;
use crate::{
    keys::{
        data::{Note, read_watermark, to_bytes},
        layout::parent,
    },
    session::{Ask, Found, Session, Write},
    store::{Held, Store},
    tunables::{TOKEN_LAG, TRIES},
};

/// The grant of an entry that nothing blocks. `None` if the entry is gone.
pub(super) async fn grant(
    store: &Store,
    request: &Request,
    held: Held,
    note: Option<(Note, Stat)>,
    directory: Stat,
) -> Result<Option<Grant>, Error> {
    let token = mint(store, request, &held, note, directory.czxid).await?;
    let Some(token) = token else { return Ok(None) };
    let session = &held.session;
    let mut grant = Grant::new(request, token);
    grant.lease = session.lease;
    grant.from = session.counts_from(request.sent);
    if request.mode == Mode::Shared {
        grant = grant.with_mode(Mode::Shared);
    }
    // The entry lives by its client: it ends when nobody has renewed it.
    if !session.hold(&held.path) {
        return Ok(None);
    }
    Ok(Some(grant.with_state(std::sync::Arc::new(held))))
}

/// The token of the entry. Raises the offset if the token would not be above the floor, or would
/// lag behind the clock.
async fn mint(
    store: &Store,
    request: &Request,
    held: &Held,
    mut note: Option<(Note, Stat)>,
    directory: i64,
) -> Result<Option<FencingToken>, Error> {
    let clock = &store.sessions.clock;
    for _ in 0..TRIES {
        let known = note.as_ref().and_then(|(note, _)| note.token_of(held.number, directory));
        let lag = TOKEN_LAG.as_micros() as u64;
        let is_recent = |token: &FencingToken| token.get().saturating_add(lag) >= clock.earliest();
        // guard: floor | S2 | suite::a_token_is_above_the_floor | *token > request.floor => true
        if let Some(token) = known.filter(|token| *token > request.floor && is_recent(token)) {
            return Ok(Some(token));
        }
        let bucket = parent_data(store, request, &held.session, note.is_none()).await?;
        let last = match (&known, &note, &bucket) {
            (Some(token), ..) => FencingToken::new(token.get().saturating_sub(1)),
            // The directory was made anew, so the numbers of the old one are unknown.
            (None, Some((note, stat)), _) => Some(note.highest(stat, clock.latest())),
            (None, None, Some((watermark, _))) => Some(*watermark),
            (None, None, None) => Some(FencingToken::ZERO),
        };
        let last = last.unwrap_or(FencingToken::ZERO);
        let token = FencingToken::mint(clock.earliest(), last, request.floor);
        let token = token
            .ok_or_else(|| Error::new(ErrorKind::Config, "the tokens of this store are used up"))?;
        let bucket = bucket.map(|(_, version)| version);
        match put_token(store, request, held, note.as_ref(), (token, directory), bucket).await? {
            Put::Done => return Ok(Some(token)),
            Put::Gone => return Ok(None),
            Put::Changed => {}
        }
        let path = store.layout.note(&request.name);
        let found = held.session.read(&[Ask::Data(&path)]).await?.pop();
        note = read_note(found.unwrap_or(Found::Missing))?;
    }
    Err(Error::new(ErrorKind::Unavailable, "others changed the token again and again"))
}

/// The watermark of the names in a bucket, and the version of its node, if it is wanted.
async fn parent_data(
    store: &Store,
    request: &Request,
    session: &Session,
    is_wanted: bool,
) -> Result<Option<(FencingToken, i32)>, Error> {
    if !is_wanted {
        return Ok(None);
    }
    let note = store.layout.note(&request.name);
    let bucket = parent(&note);
    let mut found = session.read_one(bucket).await?;
    if found.is_none() {
        session.make(bucket, b"0").await?;
        found = session.read_one(bucket).await?;
    }
    Ok(found.map(|(data, stat)| (read_watermark(&data), stat.version)))
}

/// What became of a write of a token.
pub(super) enum Put {
    Done,
    /// The entry is gone, so its owner does not hold the lock.
    Gone,
    /// Others changed the node meanwhile.
    Changed,
}

/// Sets the token of an entry, in one step with the check that the entry is still there.
async fn put_token(
    store: &Store,
    request: &Request,
    held: &Held,
    note: Option<&(Note, Stat)>,
    (token, directory): (FencingToken, i64),
    bucket: Option<i32>,
) -> Result<Put, Error> {
    let record = note.and_then(|(note, _)| note.record.clone());
    let new = Note { number: held.number, token: token.get(), directory, record };
    let path = store.layout.note(&request.name);
    match note {
        Some((_, stat)) => put_note(held, &path, &new, stat.version).await,
        None => {
            let data = to_bytes(&new);
            let mut steps = vec![Write::Unchanged(&held.path, held.version)];
            steps.extend(bucket.map(|version| Write::Unchanged(parent(&path), version)));
            steps.push(Write::Create(&path, &data, CreateMode::Persistent));
            put(held, &steps).await
        }
    }
}

/// Replaces the data of a name, in one step with the check that the entry is still there.
pub(super) async fn put_note(
    held: &Held,
    path: &str,
    note: &Note,
    version: i32,
) -> Result<Put, Error> {
    let data = to_bytes(note);
    let steps = [Write::Unchanged(&held.path, held.version), Write::Put(path, &data, version)];
    put(held, &steps).await
}

async fn put(held: &Held, steps: &[Write<'_>]) -> Result<Put, Error> {
    use crate::error::Failure;
    match held.session.write(steps).await {
        Ok(_) => Ok(Put::Done),
        Err(Failure::Refused(0, _)) => Ok(Put::Gone),
        Err(failure) if failure.is_changed() || failure.is_no_node() => Ok(Put::Changed),
        Err(failure) => Err(failure.into()),
    }
}
