//! Short histories for the tests of the rules.

use lock_core::{FencingToken, Instant, LockName, LossReason, Mode, OwnerId};

use crate::history::{Event, History, Op, What};

/// Builds a history of the name `job`. An event belongs to the acquisition that began last.
pub(super) struct Sample {
    events: Vec<Event>,
    op: Op,
}

pub(super) fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

pub(super) fn token(value: u64) -> FencingToken {
    FencingToken::new(value).unwrap()
}

impl Sample {
    /// Begins with an acquisition by process 0 at the time 0.
    pub(super) fn new() -> Self {
        Self { events: Vec::new(), op: Op { process: 0, number: 0 } }.ask(0)
    }

    pub(super) fn ask(self, nanos: u64) -> Self {
        self.ask_in(0, nanos)
    }

    pub(super) fn ask_in(mut self, process: u32, nanos: u64) -> Self {
        let number = self.events.len() as u64;
        self.op = Op { process, number };
        self.ask_as(Mode::Exclusive, nanos)
    }

    /// Begins the acquisition of a reader, in a new process.
    pub(super) fn ask_shared(mut self, nanos: u64) -> Self {
        let number = self.events.len() as u64;
        self.op = Op { process: 100 + number as u32, number };
        self.ask_as(Mode::Shared, nanos)
    }

    fn ask_as(self, mode: Mode, nanos: u64) -> Self {
        let name = LockName::new("job").unwrap();
        self.event(nanos, What::Asked { name, permits: None, mode })
    }

    pub(super) fn ask_permit(mut self, permits: u32, nanos: u64) -> Self {
        self.op = Op { process: 0, number: self.events.len() as u64 };
        let name = LockName::new("pool").unwrap();
        self.event(nanos, What::Asked { name, permits: Some(permits), mode: Mode::Exclusive })
    }

    /// Grants the permit of this slot.
    pub(super) fn acquired_slot(self, slot: usize, nanos: u64, value: u64, until: u64) -> Self {
        let owner = OwnerId::from_bits(u128::from(self.op.number) + 1_000);
        let lock = Some(LockName::new(format!("pool/{slot}")).unwrap());
        let what = What::Acquired { owner, token: token(value), until: Some(at(until)), lock };
        self.event(nanos, what)
    }

    /// Attaches what the last acquisition had.
    pub(super) fn attach(self, nanos: u64) -> Self {
        let of = self.op;
        self.attaches(of, nanos)
    }

    /// Attaches what the acquisition had that began at this place.
    pub(super) fn attach_of(self, first: usize, nanos: u64) -> Self {
        let of = self.events[first].op;
        self.attaches(of, nanos)
    }

    fn attaches(mut self, of: Op, nanos: u64) -> Self {
        self.op = Op { process: 0, number: self.events.len() as u64 };
        self.event(nanos, What::Attaching { name: LockName::new("job").unwrap(), of })
    }

    pub(super) fn failed(self, nanos: u64) -> Self {
        self.event(nanos, What::NotAcquired { token: None, why: "no answer".into() })
    }

    pub(super) fn event(mut self, nanos: u64, what: What) -> Self {
        self.events.push(Event { at: at(nanos), op: self.op, what });
        self
    }

    /// Continues with the acquisition that began `back` before the last.
    pub(super) fn earlier(mut self, back: usize) -> Self {
        let asked = self.events.iter().filter(|event| matches!(event.what, What::Asked { .. }));
        self.op = asked.rev().nth(back).unwrap().op;
        self
    }

    pub(super) fn queued(self, nanos: u64) -> Self {
        self.event(nanos, What::Queued)
    }

    pub(super) fn acquired(self, nanos: u64, value: u64, until: u64) -> Self {
        let owner = u128::from(self.op.number) + 1_000;
        self.acquired_by(owner, nanos, value, until)
    }

    pub(super) fn acquired_by(self, owner: u128, nanos: u64, value: u64, until: u64) -> Self {
        let owner = OwnerId::from_bits(owner);
        let what =
            What::Acquired { owner, token: token(value), until: Some(at(until)), lock: None };
        self.event(nanos, what)
    }

    pub(super) fn busy(self, nanos: u64, value: u64) -> Self {
        self.event(nanos, What::NotAcquired { token: Some(token(value)), why: "busy".into() })
    }

    pub(super) fn cancelled(self, nanos: u64) -> Self {
        self.event(nanos, What::Cancelled)
    }

    pub(super) fn look(self, nanos: u64, until: u64) -> Self {
        self.event(nanos, What::Looked { until: Some(at(until)) })
    }

    pub(super) fn look_lost(self, nanos: u64) -> Self {
        self.event(nanos, What::Looked { until: None })
    }

    pub(super) fn lost(self, nanos: u64, reason: LossReason) -> Self {
        self.event(nanos, What::Lost { reason })
    }

    pub(super) fn given_up(self, nanos: u64) -> Self {
        self.event(nanos, What::GivenUp)
    }

    pub(super) fn released(self, nanos: u64, failed: Option<&str>) -> Self {
        self.event(nanos, What::Released { failed: failed.map(Into::into) })
    }

    pub(super) fn history(self) -> History {
        History::new(self.events)
    }
}
