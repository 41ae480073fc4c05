//! Makes the token of an entry that has become the first, and so a holder.

use lock_core::{Error, ErrorKind, FencingToken, Grant, Mode, Request, check_lease};
use zookeeper_client::{CreateMode, Stat};

use super::view::{View, read_note};
use crate::{
    error::Failure,
    keys::{
        data::{Note, read_watermark, to_bytes},
        layout::parent,
    },
    session::{Read, Session, Write},
    store::{OwnEntry, Store},
    tunables::{TOKEN_LAG, TRIES},
};

/// The grant of an entry that nothing blocks. `None` if the entry is gone.
pub(super) async fn grant(
    store: &Store,
    request: &Request,
    own: OwnEntry,
    view: View,
) -> Result<Option<Grant>, Error> {
    let Some(directory) = view.directory else { return Ok(None) };
    // The longest lease may have been shortened since this client read it, or while the entry
    // waited.
    check_lease(own.session.lease, view.longest_held)?;
    let token = mint(store, request, &own, view.note, directory.czxid).await?;
    let Some(token) = token else { return Ok(None) };
    let session = &own.session;
    let mut grant = Grant::new(request, token);
    grant.lease = session.lease;
    grant.from = session.counts_from(request.sent);
    if request.mode == Mode::Shared {
        grant = grant.with_mode(Mode::Shared);
    }
    // What has become of the queue in a later epoch is not known, and the validity may count from a
    // write in it.
    if session.seen_epoch() > view.epoch {
        let message = "the servers have elected a leader meanwhile";
        return Err(Error::new(ErrorKind::Unavailable, message));
    }
    // The entry lives by its client: it ends when nobody has renewed it.
    if !session.hold(&own.path) {
        return Ok(None);
    }
    Ok(Some(grant.with_state(std::sync::Arc::new(own))))
}

/// The token of the entry. Raises the offset if the token would not be above the floor, or would
/// lag behind the clock.
async fn mint(
    store: &Store,
    request: &Request,
    own: &OwnEntry,
    mut note: Option<(Note, Stat)>,
    directory: i64,
) -> Result<Option<FencingToken>, Error> {
    let (clock, path) = (&store.sessions.clock, store.layout.note(&request.name));
    for _ in 0..TRIES {
        let known = note.as_ref().and_then(|(note, _)| note.token_of(own.number, directory));
        let lag = TOKEN_LAG.as_micros() as u64;
        // A repeat of its holder gets the same token again.
        let is_held = own.session.holds(&own.path);
        let is_recent =
            |token: &FencingToken| is_held || token.get().saturating_add(lag) >= clock.earliest();
        // guard: floor | S2 | suite::a_token_is_above_the_floor |
        //   *token > request.floor && is_recent(token) => true
        if let Some(token) = known.filter(|token| *token > request.floor && is_recent(token)) {
            return Ok(Some(token));
        }
        let mut steps = Vec::new();
        let last = match (known, &note) {
            (Some(token), _) => token.get().saturating_sub(1),
            // The directory was made anew, so the numbers of the old one are unknown.
            (None, Some((note, stat))) => note.highest(stat, clock.latest()).get(),
            (None, None) => {
                let (watermark, version) = watermark(&own.session, parent(&path)).await?;
                steps.push(Write::Unchanged(parent(&path), version));
                watermark.get()
            }
        };
        let last = FencingToken::new(last).unwrap_or(FencingToken::ZERO);
        let token = FencingToken::mint(clock.earliest(), last, request.floor);
        let token = token
            .ok_or_else(|| Error::new(ErrorKind::Config, "the tokens of this store are used up"))?;
        let record = note.as_ref().and_then(|(note, _)| note.record.clone());
        let new = Note { number: own.number, token: token.get(), directory, record };
        let new = to_bytes(&new);
        steps.push(match &note {
            Some((_, stat)) => Write::Put(&path, &new, stat.version),
            None => Write::Create(&path, &new, CreateMode::Persistent),
        });
        match put(own, &steps).await? {
            PutOutcome::Done => return Ok(Some(token)),
            PutOutcome::Gone => return Ok(None),
            PutOutcome::Changed => {}
        }
        let [found] = own.session.read([Read::Data(&path)]).await?;
        note = read_note(found)?;
    }
    Err(Error::new(ErrorKind::Unavailable, "others changed the token again and again"))
}

/// The watermark of the names in a bucket, and the version of its node.
async fn watermark(session: &Session, bucket: &str) -> Result<(FencingToken, i32), Error> {
    let mut found = session.read_one(bucket).await?;
    if found.is_none() {
        session.make(bucket, b"0", CreateMode::Persistent).await?;
        found = session.read_one(bucket).await?;
    }
    let missing = || Error::new(ErrorKind::Unavailable, "the node of a group of names was removed");
    let (data, stat) = found.ok_or_else(missing)?;
    Ok((read_watermark(&data), stat.version))
}

/// What became of a write of a holder.
pub(super) enum PutOutcome {
    Done,
    /// The entry is gone, so its owner does not hold the lock.
    Gone,
    /// Others changed the node meanwhile.
    Changed,
}

/// Writes, in one step with the check that the entry is still there.
pub(super) async fn put(own: &OwnEntry, steps: &[Write<'_>]) -> Result<PutOutcome, Error> {
    let mut all = vec![Write::Unchanged(&own.path, own.version)];
    all.extend(steps);
    match own.session.write(&all).await {
        Ok(_) => Ok(PutOutcome::Done),
        Err(failure) if !failure.is_changed() => Err(failure.into()),
        Err(Failure::Refused(0, _)) => Ok(PutOutcome::Gone),
        Err(_) => Ok(PutOutcome::Changed),
    }
}
