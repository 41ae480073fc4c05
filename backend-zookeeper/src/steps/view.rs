//! What a step reads of a lock.

use std::time::Duration;

use lock_core::{Busy, Error, FencingToken, Holder, LockName, OwnerId, OwnerLabel, Quarantined};
use zookeeper_client::Stat;

use crate::{
    keys::{
        data::{self, EntryData, Note},
        entry::{Entry, Kind, holders, in_order},
    },
    session::{Ask, Found, Session, Write, epoch_of},
    store::Store,
    tunables::{FAR, POLL, SHORTEST_POLL},
};

/// A lock at one point in time.
#[derive(Debug)]
pub(super) struct View {
    pub(super) entries: Vec<Entry>,
    /// `None` if the name has no directory.
    pub(super) directory: Option<Stat>,
    pub(super) note: Option<(Note, Stat)>,
    pub(super) is_abandoned: bool,
    pub(super) quarantined: Option<Quarantined>,
}

/// An entry as it was read.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) entry: Entry,
    /// `None` for an entry of another library.
    pub(super) data: Option<EntryData>,
    pub(super) stat: Stat,
    text: String,
}

impl Store {
    /// Reads a lock. `owner` is who would be abandoned.
    pub(super) async fn view(
        &self,
        session: &Session,
        name: &LockName,
        owner: Option<OwnerId>,
    ) -> Result<View, Error> {
        let (directory, note) = (self.layout.directory(name), self.layout.note(name));
        let (settings, tombstone) =
            (self.layout.settings(), owner.map(|it| self.layout.tombstone(it)));
        let mut asked = vec![
            Ask::Children(&directory),
            Ask::Data(&directory),
            Ask::Data(&note),
            Ask::Data(&settings),
        ];
        asked.extend(tombstone.as_deref().map(Ask::Data));
        let mut found = session.read(&asked).await?.into_iter();
        let mut next = || found.next().unwrap_or(Found::Missing);
        let entries = match next() {
            Found::Children(children) => in_order(children),
            _ => Vec::new(),
        };
        let directory = next().data().map(|(_, stat)| stat);
        let note = next();
        self.check_settings(session, next()).await?;
        let is_abandoned = next().data().is_some();
        self.meet_queue(session, directory.as_ref()).await?;
        let (note, quarantined) = (read_note(note)?, self.quarantined());
        Ok(View { entries, directory, note, is_abandoned, quarantined })
    }

    /// Records settings that were read with a lock.
    pub(super) async fn check_settings(
        &self,
        session: &Session,
        found: Found,
    ) -> Result<(), Error> {
        match self.note_settings(found)? {
            true => Ok(()),
            false => self.restore_settings(session).await,
        }
    }

    /// Each entry that comes or goes changes the number in `directory`. So if neither it nor the
    /// session knows of an election since the store was open, the queue is the one of that time.
    pub(super) async fn meet_queue(
        &self,
        session: &Session,
        directory: Option<&Stat>,
    ) -> Result<(), Error> {
        let changed = directory.map_or(0, |stat| epoch_of(stat.pzxid));
        self.meet(session, changed.max(session.epoch())).await
    }

    /// The quarantine that runs, if any.
    pub(crate) fn quarantined(&self) -> Option<Quarantined> {
        self.settings().quarantined(self.sessions.clock.earliest())
    }

    /// Reads entries of a lock. Those that are gone are left out.
    pub(super) async fn entries(
        &self,
        session: &Session,
        name: &LockName,
        entries: &[Entry],
    ) -> Result<Vec<Seen>, Error> {
        let directory = self.layout.directory(name);
        let mut seen = Vec::new();
        for some in entries.chunks(crate::tunables::READ_AT_ONCE) {
            let paths: Vec<_> = some.iter().map(|it| format!("{directory}/{}", it.node)).collect();
            let asked: Vec<_> = paths.iter().map(|path| Ask::Data(path)).collect();
            let found = session.read(&asked).await?.into_iter().zip(some);
            seen.extend(found.filter_map(|(found, entry)| Seen::new(entry.clone(), found)));
        }
        Ok(seen)
    }

    /// Removes an entry without a session whose end has come. `false` if it must stay.
    pub(super) async fn remove_ended(
        &self,
        session: &Session,
        name: &LockName,
        seen: &Seen,
    ) -> Result<bool, Error> {
        if seen.remaining(self.sessions.clock.earliest()) != Some(Duration::ZERO) {
            return Ok(false);
        }
        let path = format!("{}/{}", self.layout.directory(name), seen.entry.node);
        match session.write(&[Write::Delete(&path, Some(seen.stat.version))]).await {
            Err(failure) if failure.is_no_node() || failure.is_changed() => Ok(true),
            removed => removed.map(|_| true).map_err(Error::from),
        }
    }

    /// Removes the first entries as long as they have ended. Returns the first that has not.
    pub(super) async fn first(
        &self,
        session: &Session,
        name: &LockName,
        entries: &mut Vec<Entry>,
    ) -> Result<Option<Seen>, Error> {
        while let Some(first) = entries.first() {
            let seen = self.entries(session, name, std::slice::from_ref(first)).await?.pop();
            match seen {
                Some(seen) if !self.remove_ended(session, name, &seen).await? => {
                    return Ok(Some(seen));
                }
                _ => drop(entries.remove(0)),
            }
        }
        Ok(None)
    }
}

pub(super) fn read_note(found: Found) -> Result<Option<(Note, Stat)>, Error> {
    let Some((bytes, stat)) = found.data() else { return Ok(None) };
    let note = data::read(&bytes).ok_or_else(|| {
        let message = "the node of a name cannot be read: it was changed by hand";
        Error::new(lock_core::ErrorKind::Config, message)
    })?;
    Ok(Some((note, stat)))
}

impl View {
    /// The entries that an entry of this kind and number waits for.
    pub(super) fn blockers(&self, number: i32, kind: Kind) -> Vec<Entry> {
        // guard: queue | S1 | suite::a_held_lock_is_refused_with_its_holder_and_token |
        //   it.is_before(number) && it.blocks(kind) => false
        let before = self.entries.iter().filter(|it| it.is_before(number) && it.blocks(kind));
        before.cloned().collect()
    }

    /// The token of an entry; the last that is known if it has none.
    pub(super) fn token_of(&self, entry: &Entry) -> FencingToken {
        token_of(self.note.as_ref(), self.directory.as_ref(), entry.number)
    }

    /// The highest token of those that hold the lock, of entries in the order of the queue.
    pub(super) fn held_token(&self, entries: &[Entry]) -> FencingToken {
        holders(entries).last().map_or(FencingToken::ZERO, |last| self.token_of(last))
    }

    /// At least the last token.
    pub(super) fn last_token(&self) -> FencingToken {
        let number = self.directory.map(|stat| stat.cversion);
        token_of(self.note.as_ref(), self.directory.as_ref(), number)
    }

    pub(super) fn holders(&self) -> &[Entry] {
        holders(&self.entries)
    }
}

pub(super) fn token_of(
    note: Option<&(Note, Stat)>,
    directory: Option<&Stat>,
    number: Option<i32>,
) -> FencingToken {
    let known = note.and_then(|(note, _)| {
        let last = FencingToken::new(note.token)?;
        let token = note.token_of(number?, directory?.czxid);
        Some(token.unwrap_or(last))
    });
    known.unwrap_or(FencingToken::ZERO)
}

impl Seen {
    pub(super) fn new(entry: Entry, found: Found) -> Option<Self> {
        let (bytes, stat) = found.data()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Some(Self { entry, data: data::read(&bytes), stat, text })
    }

    pub(super) fn belongs_to(&self, owner: OwnerId) -> bool {
        self.data.as_ref().is_some_and(|data| data.owner == owner)
    }

    pub(super) fn is_released(&self) -> bool {
        self.data.as_ref().is_some_and(|data| data.released)
    }

    /// How long an entry without a session stays. `None` for all others.
    fn remaining(&self, now_micros: u64) -> Option<Duration> {
        let until = self.data.as_ref()?.until_micros?;
        Some(Duration::from_micros(until.saturating_sub(now_micros)))
    }

    /// The holder that this entry stands for.
    pub(super) fn holder(&self, store: &Store) -> Option<Holder> {
        let Some(data) = &self.data else {
            // Curator writes the address of its machine.
            let shown = self.text.chars().filter(|each| !each.is_control()).take(60);
            let (text, session) = (shown.collect::<String>(), self.stat.ephemeral_owner);
            let (label, remaining) = match session {
                0 => (
                    "a node without a session, which ends by `release --force` only".to_owned(),
                    Holder::WITHOUT_END,
                ),
                _ => (
                    format!("session 0x{session:x} {text}").trim_end().to_owned(),
                    store.settings().longest_lease(),
                ),
            };
            return Some(Holder::foreign(OwnerLabel::new(label).ok()?, remaining));
        };
        let remaining = self.remaining(store.sessions.clock.earliest());
        let remaining = remaining.unwrap_or_else(|| data.lease());
        Some(match self.entry.kind {
            Kind::Reader => Holder::readers(data.label.clone(), remaining),
            _ => Holder::new(data.owner, data.label.clone(), remaining),
        })
    }

    /// The answer to an attempt that stands behind it, with so many entries before it.
    pub(super) fn busy(&self, store: &Store, token: FencingToken, distance: usize) -> Busy {
        let distance = u32::try_from(distance.max(1)).unwrap_or(FAR).min(FAR);
        let mut retry_after = POLL * distance;
        if let Some(left) = self.remaining(store.sessions.clock.earliest()) {
            retry_after = retry_after.min(left).max(SHORTEST_POLL);
        }
        Busy::new(self.holder(store), token, retry_after)
    }
}
