//! Records of names. A record stands in the node of its name, beside the token.

use lock_core::{
    Error, ErrorKind, Grant, LockName, Mode, RecordRead, RecordWrite, StoreTime, WriteOutcome,
};

use super::{
    grant::{PutOutcome, put},
    view::{EntryNode, read_note},
};
use crate::{
    keys::{
        data::{Note, StoredRecord, to_bytes},
        entry::Entry,
    },
    session::{Read, Write},
    store::{OwnEntry, Store},
    tunables::TRIES,
};

/// Reads the record.
pub(crate) async fn read(store: &Store, name: &LockName) -> Result<RecordRead, Error> {
    let session = store.fresh_session().await?;
    let (note, settings) = (store.layout.note(name), store.layout.settings());
    let [note, settings] = session.read([Read::Data(&note), Read::Data(&settings)]).await?;
    let note = read_note(note)?;
    let (settings, _) = store.settings_of(&session, settings.data()).await?;
    let now = store.sessions.clock.earliest();
    let stored = note.and_then(|(note, _)| note.record).filter(|record| !record.is_over(now));
    let record = stored.and_then(|stored| stored.record());
    let written = record.as_ref().map_or(0, |record| record.written.as_micros());
    let since = StoreTime::from_micros(settings.records_since());
    let now = StoreTime::from_micros(now.max(written));
    Ok(RecordRead::new(record, now).with_complete_since(since))
}

/// Writes the record, in one step with the check that the grant holds its lock.
pub(crate) async fn write(
    store: &Store,
    grant: &Grant,
    held: &OwnEntry,
    write: &RecordWrite,
) -> Result<WriteOutcome, Error> {
    if grant.mode == Mode::Shared {
        return Ok(WriteOutcome::NotHeld);
    }
    let (path, settings) = (store.layout.note(&grant.name), store.layout.settings());
    let mut held = OwnEntry { session: store.session_of(held).await?, ..held.clone() };
    for _ in 0..TRIES {
        let asked = [Read::Data(&held.path), Read::Data(&path), Read::Data(&settings)];
        let [entry, note, settings] = held.session.read(asked).await?;
        store.settings_of(&held.session, settings.data()).await?;
        let entry = EntryNode::new(Entry::at(&held.path), entry);
        let Some(entry) = entry.filter(|it| it.is_held_by(grant.owner)) else {
            return Ok(WriteOutcome::NotHeld);
        };
        let Some((note, stat)) = read_note(note)? else {
            let message = "the node of the name was removed by hand, or by a restore";
            return Err(Error::new(ErrorKind::Unavailable, message));
        };
        let is_repeat = note.record.as_ref().is_some_and(|record| {
            record.token == grant.token.get() && record.number >= write.number
        });
        if is_repeat {
            return Ok(WriteOutcome::Written);
        }
        let now = store.sessions.clock.latest();
        let record =
            StoredRecord::new(&write.value, grant.token, write.number, now, write.keep_for);
        // The time of this write counts for the token, too.
        let (number, known) = (held.number, note.token_of(held.number, note.directory));
        let token = known.map_or(grant.token, |known| known.max(grant.token)).get();
        let note = to_bytes(&Note { number, token, record: Some(record), ..note });
        held.version = entry.stat.version;
        match put(&held, &[Write::Put(&path, &note, stat.version)]).await? {
            PutOutcome::Done => return Ok(WriteOutcome::Written),
            PutOutcome::Gone | PutOutcome::Changed => {}
        }
    }
    Err(Error::new(ErrorKind::Unavailable, "others changed the record again and again"))
}
