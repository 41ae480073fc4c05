//! The records of the simulated store: a list of all writes, of which a crash may lose the last.

use std::{sync::Arc, time::Duration};

use lock_core::{
    Backend as _, Env as _, Error, Grant, LastRun, LockName, Record, RecordRead, RecordWrite,
    RunState, StoreTime, WriteOutcome,
};

use super::{
    net::{Link, Net, at_once},
    plan::Mutant,
    world::NET,
};

impl Net {
    /// The time on the store's clock.
    pub(super) fn store_time(&self) -> StoreTime {
        StoreTime::from_micros(self.clock.wall_micros())
    }

    /// The store crashes and starts again: it frees all locks, and carries out nothing for 20 s. If
    /// it does not flush, it loses the records of the last two seconds, and knows it.
    pub(super) fn crash(&self, name: &LockName, flushes: bool) {
        self.world.log(format_args!("the store crashes"));
        let freed = at_once(self.memory.force_release(name));
        debug_assert!(freed.is_ok(), "memory frees");
        let hides = self.is(Mutant::HidesLosses);
        let now = self.store_time();
        let mut state = self.state();
        state.store_stopped_until = self.world.now() + Duration::from_secs(20).as_nanos() as u64;
        if !flushes {
            let records = &mut state.records;
            let kept = |record: &Record| now.since(record.written) > Duration::from_secs(2);
            let is_done =
                |record: &&Record| LastRun::of(record).is_ok_and(|run| run.state == RunState::Done);
            let gone: Vec<_> = records.writes.extract_if(.., |record| !kept(record)).collect();
            records.lost += gone.iter().filter(is_done).count();
            if !hides {
                records.since = now;
            }
        }
    }
}

impl Link {
    pub(super) fn read_once(&self, name: &LockName) -> Result<RecordRead, Error> {
        let now = at_once(self.net.memory.read_record(name))?.now;
        let records = &self.net.state().records;
        // For a mutant: the store answers with the record before the last.
        let skipped = usize::from(self.net.is(Mutant::ReadsOldRecords));
        let record = records.writes.iter().rev().nth(skipped).cloned();
        Ok(RecordRead::new(record, now).with_complete_since(records.since))
    }

    pub(super) fn write_once(
        &self,
        grant: &Grant,
        write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        let memory = &self.net.memory;
        let mut outcome = at_once(memory.write_record(grant, write))?;
        let mut record = at_once(memory.read_record(&grant.name))?.record;
        if outcome == WriteOutcome::NotHeld && self.net.is(Mutant::WritesForFormerHolders) {
            outcome = WriteOutcome::Written;
            record = Some(Record::new(write.value.clone(), grant.token, self.net.store_time()));
        }
        let text = String::from_utf8_lossy(&write.value).into_owned();
        self.net.world.log(format_args!("{} writes {text} -> {outcome:?}", self.process));
        if let Some(record) = record.filter(|_| outcome == WriteOutcome::Written) {
            self.written(&grant.name, record);
        }
        Ok(outcome)
    }

    fn written(&self, name: &LockName, record: Record) {
        let mut state = self.net.state();
        let records = &mut state.records;
        if records.writes.last() == Some(&record) {
            return;
        }
        let done = LastRun::of(&record).ok().filter(|run| run.state == RunState::Done);
        records.writes.push(record);
        let Some(done) = done else { return };
        records.done.push(done);
        let Some(after) = records.crash_after_done.take() else { return };
        drop(state);
        let (net, name) = (Arc::clone(&self.net), name.clone());
        let crash = async move {
            net.world.sleep(after).await;
            net.crash(&name, false);
        };
        self.net.world.spawn(NET, Box::pin(crash));
    }
}
