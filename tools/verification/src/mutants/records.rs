//! The records of a flawed backend.

use std::{collections::HashMap, sync::Arc};

use lock_core::{
    Backend, Env as _, Error, FencingToken, Grant, LockName, LockState, Mutex, Record, RecordRead,
    RecordWrite, SystemEnv, WriteOutcome,
};

use super::Flaw;

#[derive(Debug)]
pub(super) struct FlawedRecords {
    sound: Arc<dyn Backend>,
    flaw: Option<Flaw>,
    /// Records that stand in the place of those of the sound backend.
    others: Mutex<HashMap<LockName, Option<Record>>>,
}

impl FlawedRecords {
    pub(super) fn new(sound: Arc<dyn Backend>, flaw: Option<Flaw>) -> Self {
        Self { sound, flaw, others: Mutex::default() }
    }

    pub(super) async fn read(&self, name: &LockName) -> Result<RecordRead, Error> {
        let mut read = self.sound.read_record(name).await?;
        if let Some(other) = self.others.lock().get(name) {
            read.record = other.clone();
        }
        match (self.flaw, &mut read.record) {
            (Some(Flaw::TimesRecordsByTheRead), Some(record)) => record.written = read.now,
            (Some(Flaw::KeepsRecordsBriefly), kept) => {
                let brief = RecordWrite::SHORTEST_KEPT / 2;
                kept.take_if(|record| read.now.since(record.written) > brief);
            }
            (Some(Flaw::NeverComplete), _) => read.complete_since = read.now,
            _ => {}
        }
        Ok(read)
    }

    pub(super) async fn write(
        &self,
        grant: &Grant,
        mut write: RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        match self.flaw {
            Some(Flaw::WritesLateRecords) => write.number = SystemEnv.now().as_nanos(),
            Some(Flaw::CutsRecords) => write.value.truncate(255),
            _ => {}
        }
        let outcome = self.sound.write_record(grant, &write).await?;
        let last = self.read(&grant.name).await?;
        match self.flaw {
            Some(Flaw::ListsRecords) => {
                let kept = self.sound.read_record(&grant.name).await?.record;
                self.others.lock().insert(grant.name.clone(), kept);
                return Ok(outcome);
            }
            Some(Flaw::WritesRecordsForAnybody) => {}
            // Also for a grant that is gone, until a later one has written.
            Some(Flaw::ComparesRecordsTokens)
                if last.record.is_none_or(|record| record.token <= grant.token) => {}
            _ => return Ok(outcome),
        }
        let record = Record::new(write.value, grant.token, last.now);
        self.others.lock().insert(grant.name.clone(), Some(record));
        Ok(WriteOutcome::Written)
    }

    pub(super) fn note_release(&self, name: &LockName) {
        if self.flaw == Some(Flaw::ForgetsRecordsWithTheLock) {
            self.others.lock().insert(name.clone(), None);
        }
    }

    /// The names that a listing has although they are only names of records.
    pub(super) fn listed(&self) -> Vec<LockState> {
        if self.flaw != Some(Flaw::ListsRecords) {
            return Vec::new();
        }
        let others = self.others.lock();
        others.keys().map(|name| LockState::new(name.clone(), None, FencingToken::ZERO)).collect()
    }
}
