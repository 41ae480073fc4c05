//! The data of a run.

use std::{sync::Arc, time::Duration};

use lock_core::{Guarantees, Instant, LockName};

use crate::proof::clients::name_records::{is_late, is_written};
use crate::proof::plan::{fault::Fault, system_under_test::Guarantee};
use conformance_tests::{
    SetUpError,
    history::{History, Holds, Op, What},
};

/// A violation of a guarantee.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) guarantee: Guarantee,
    pub(crate) what: String,
    /// The acquisitions that took part.
    pub(crate) ops: Vec<Op>,
}

impl Finding {
    pub(crate) fn new(guarantee: Guarantee, what: impl Into<String>) -> Self {
        Self { guarantee, what: what.into(), ops: Vec::new() }
    }
}

/// The data of a run.
#[derive(Debug)]
pub(crate) struct RunData {
    pub(crate) seed: u64,
    pub(crate) fault: Fault,
    pub(crate) history: History,
    pub(crate) promised: Arc<Guarantees>,
    pub(crate) wait: Duration,
    /// When the victim's process was paused and resumed.
    pub(crate) pause: Option<(Instant, Instant)>,
    /// The victim's lock, and the begin and the end of the fault.
    pub(crate) around: Option<(LockName, Instant, Instant)>,
    /// The time from the fault until another process held the victim's lock.
    pub(crate) freed_after: Option<Duration>,
    pub(crate) findings: Vec<Finding>,
    /// How the fault is known to have happened.
    pub(crate) happened: String,
    /// Whether the store's own fence was tried.
    pub(crate) has_own_fence: bool,
    /// Whether the store has records.
    pub(crate) has_records: bool,
    pub(crate) tolerance: Duration,
    pub(crate) crowded: bool,
}

impl RunData {
    /// Whether this run can judge this guarantee.
    pub(crate) fn judges(&self, guarantee: Guarantee) -> bool {
        match guarantee {
            Guarantee::OwnFence => self.has_own_fence,
            Guarantee::Record if self.promised.record.holds() => self.fault.spares_kept_records(),
            Guarantee::Record => self.has_records && self.fault.spares_all_data(),
            Guarantee::HandOver => {
                let exclusive = self.promised.exclusion.holds();
                self.promised.hand_over && (exclusive || self.fault.spares_all_data())
            }
            // A paused process, or one without a connection, loses its queue entry.
            Guarantee::Fair => self.promised.fair && self.fault == Fault::None,
            _ => true,
        }
    }

    /// Fails if the run tried no write behind the store's fence, no hand-over, or no queue entry,
    /// where it must judge them.
    pub(crate) fn has_evidence(&self) -> Result<(), SetUpError> {
        let seen = |wanted: &dyn Fn(&What) -> bool| {
            self.history.events().iter().any(|event| wanted(&event.what))
        };
        let by_the_fence = |what: &What| {
            let What::Updated { resource, admitted: true, .. } = what else { return false };
            resource.starts_with("own ")
        };
        if self.has_own_fence && !seen(&by_the_fence) {
            return Err("nobody wrote to the register behind the store's own fence".into());
        }
        if self.judges(Guarantee::Record) {
            if !seen(&is_written) {
                return Err("nobody wrote a record".into());
            }
            // The victim writes when it goes on, after others have held the lock.
            if self.fault == Fault::ClientPaused && !seen(&is_late) {
                return Err("no former holder tried to write a record".into());
            }
        }
        if self.judges(Guarantee::HandOver) && self.fault == Fault::None {
            let holds = Holds::of(&self.history);
            let mut all = holds.by_name.values().flatten();
            if !all.any(|attempt| attempt.attaches.is_some() && attempt.hold.is_some()) {
                return Err("nobody attached a detached lock".into());
            }
        }
        if self.judges(Guarantee::Fair) && !seen(&|what| matches!(what, What::Queued)) {
            return Err(
                "no client had a queue entry, so the run says nothing about the order".into()
            );
        }
        Ok(())
    }
}
