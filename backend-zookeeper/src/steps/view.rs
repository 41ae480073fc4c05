//! What a step reads of a lock.

use std::{sync::Arc, time::Duration};

use lock_core::{Busy, Error, FencingToken, Holder, LockName, OwnerId, OwnerLabel, Quarantined};
use zookeeper_client::Stat;

use crate::{
    keys::{
        data::{self, EntryData, Note},
        entry::{Entry, Kind, holders, in_order},
        layout::Layout,
    },
    session::{Read, ReadResult, Session, epoch_of},
    store::Store,
    tunables::{FAR, POLL, READ_AT_ONCE, SHORTEST_POLL},
};

/// A lock at one point in time.
#[derive(Debug)]
pub(super) struct View {
    pub(super) entries: Vec<Entry>,
    /// `None` if the name has no directory.
    pub(super) directory: Option<Stat>,
    pub(super) note: Option<(Note, Stat)>,
    pub(super) is_abandoned: bool,
    /// Nobody holds what this state does not have, unless in a later epoch, or in a quarantine.
    pub(super) epoch: i64,
    pub(super) quarantined: Option<Quarantined>,
    /// A quarantine waits out no longer lease.
    pub(super) longest_held: Duration,
}

/// An entry as it was read.
#[derive(Debug)]
pub(super) struct EntryNode {
    pub(super) entry: Entry,
    /// `None` for an entry of another library.
    pub(super) data: Option<EntryData>,
    pub(super) stat: Stat,
    text: String,
}

impl Store {
    /// Reads a lock, and whether this owner was abandoned.
    pub(super) async fn view(
        &self,
        session: &Arc<Session>,
        name: &LockName,
        owner: OwnerId,
    ) -> Result<View, Error> {
        let (directory, note) = (self.layout.directory(name), self.layout.note(name));
        let (settings, tombstone) = (self.layout.settings(), self.layout.tombstone(owner));
        let [children, directory, note, settings, tombstone] = session
            .read([
                Read::Children(&directory),
                Read::Data(&directory),
                Read::Data(&note),
                Read::Data(&settings),
                Read::Data(&tombstone),
            ])
            .await?;
        let directory = directory.data().map(|(_, stat)| stat);
        // Each entry that comes or goes changes the number in `directory`. So if neither it nor the
        // session knows of an election since the store was open, the queue is the one of that time.
        let mut epoch = directory.map_or(0, |stat| epoch_of(stat.pzxid)).max(session.seen_epoch());
        if epoch > self.sessions.clock.epoch() {
            // The directory may come from other servers, which have held more elections.
            session.touch().await?;
            epoch = epoch.min(session.epoch());
        }
        let settings = self.settings_of(session, settings.data()).await?;
        let (settings, _) = self.enter_epoch(session, settings, epoch).await?;
        Ok(View {
            entries: in_order(children.children()),
            directory,
            note: read_note(note)?,
            is_abandoned: tombstone.data().is_some(),
            epoch,
            quarantined: settings.quarantined(self.sessions.clock.earliest()),
            longest_held: settings.longest_held(),
        })
    }

    /// Reads entries of a lock. Those that are gone are left out.
    pub(super) async fn entries(
        &self,
        session: &Session,
        name: &LockName,
        entries: &[Entry],
    ) -> Result<Vec<EntryNode>, Error> {
        let mut seen = Vec::new();
        for some in entries.chunks(READ_AT_ONCE) {
            let paths: Vec<_> = some.iter().map(|it| self.layout.entry(name, it)).collect();
            let asked: Vec<_> = paths.iter().map(|path| Read::Data(path)).collect();
            let found = session.read_all(&asked).await?.into_iter().zip(some);
            seen.extend(found.filter_map(|(found, entry)| EntryNode::new(entry.clone(), found)));
        }
        Ok(seen)
    }

    /// Deletes an entry as it was read. `false` if others have changed or deleted it.
    pub(super) async fn delete(
        &self,
        session: &Session,
        name: &LockName,
        seen: &EntryNode,
    ) -> Result<bool, Error> {
        session.delete(&self.layout.entry(name, &seen.entry), Some(seen.stat.version)).await
    }

    /// Removes the first entries as long as they are kept, and their ends have come. Returns the
    /// first other one.
    pub(super) async fn first(
        &self,
        session: &Arc<Session>,
        name: &LockName,
        entries: &mut Vec<Entry>,
    ) -> Result<Option<EntryNode>, Error> {
        first(session, &self.layout, name, entries, || self.sessions.clock.earliest()).await
    }
}

/// As [`Store::first`], by this clock.
pub(super) async fn first(
    session: &Arc<Session>,
    layout: &Layout,
    name: &LockName,
    entries: &mut Vec<Entry>,
    now: impl Fn() -> u64,
) -> Result<Option<EntryNode>, Error> {
    while let Some(entry) = entries.first() {
        let path = layout.entry(name, entry);
        let [found] = session.read([Read::Data(&path)]).await?;
        if let Some(first) = EntryNode::new(entry.clone(), found) {
            if session.clock.epoch() < epoch_of(first.stat.mzxid) {
                // The clock of an earlier leader may be ahead. This shows that of the present one.
                session.touch().await?;
            }
            if first.remaining(now()) != Some(Duration::ZERO) {
                return Ok(Some(first));
            }
            // One that others have changed meanwhile is read again.
            if !session.delete(&path, Some(first.stat.version)).await? {
                continue;
            }
        }
        entries.remove(0);
    }
    Ok(None)
}

pub(super) fn read_note(found: ReadResult) -> Result<Option<(Note, Stat)>, Error> {
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

    /// The token of an entry with this number.
    pub(super) fn token_of(&self, number: Option<i32>) -> FencingToken {
        self.token(|note, directory| note.token_of(number?, directory.czxid))
    }

    /// The last token.
    pub(super) fn last_token(&self) -> FencingToken {
        self.token(Note::last)
    }

    /// A token that follows from these; if none does, the last that is known.
    fn token(&self, of: impl Fn(&Note, &Stat) -> Option<FencingToken>) -> FencingToken {
        let Some((note, _)) = &self.note else { return FencingToken::ZERO };
        let token = self.directory.as_ref().and_then(|directory| of(note, directory));
        token.or_else(|| FencingToken::new(note.token)).unwrap_or(FencingToken::ZERO)
    }

    /// The highest token of those that hold the lock, of entries in the order of the queue.
    pub(super) fn held_token(&self, entries: &[Entry]) -> FencingToken {
        holders(entries).last().map_or(FencingToken::ZERO, |last| self.token_of(last.number))
    }

    pub(super) fn holders(&self) -> &[Entry] {
        holders(&self.entries)
    }
}

impl EntryNode {
    pub(super) fn new(entry: Entry, found: ReadResult) -> Option<Self> {
        let (bytes, stat) = found.data()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Some(Self { entry, data: data::read(&bytes), stat, text })
    }

    pub(super) fn belongs_to(&self, owner: OwnerId) -> bool {
        self.data.as_ref().is_some_and(|data| data.owner == owner)
    }

    /// Whether it is of this owner, who has not released it.
    pub(super) fn is_held_by(&self, owner: OwnerId) -> bool {
        self.belongs_to(owner) && !self.is_kept()
    }

    /// Whether its holder has released it, and it is kept for the rest of a minimum hold.
    pub(super) fn is_kept(&self) -> bool {
        self.data.as_ref().is_some_and(|data| data.kept_until_micros.is_some())
    }

    /// How long an entry is kept. `None` for all others.
    fn remaining(&self, now_micros: u64) -> Option<Duration> {
        let until = self.data.as_ref()?.kept_until_micros?;
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
