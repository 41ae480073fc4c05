//! The proof tries every kind of store under every fault that applies, with real servers, and with
//! client processes that are killed and paused. It prints a table of what held, made only of what
//! was observed.
//!
//! A run starts a store and some client processes (this program again). Their tasks wait and try,
//! hold for a long or a short time, cancel waits and drop guards, as a seed says. One process, the
//! *victim*, holds a lock. During that hold one [`Fault`] happens. Another process, the *heir*,
//! waits for that lock all the time. All events of the clients are recorded on one clock, and then
//! checked against the contract ([`Guarantee`]). The holder of a lock also writes two registers:
//! one behind a fence, and one without a fence, which must lose an update when the holder is
//! paused.
//!
//! Expectations are data ([`SystemUnderTest::withheld`]): if a store withholds a promise under a
//! fault, the run must see the promise broken, or it fails. A seed fixes the plan of the clients,
//! but not the timing of their steps. So it may take several runs to see a violation again.
//!
//! - `args`, `command`, `run_all`: the command line, and all faults of all stores, one after the
//!   other;
//! - `plan`: faults, stores with their expectations, sizes;
//! - `trial`: one run of one store under one fault;
//! - `clients`: the client processes and the data that the locks protect;
//! - `judging`, `results`: the check of a run, and the tables of many runs.

mod args;
mod clients;
mod command;
mod judging;
mod plan;
mod results;
mod run_all;
mod trial;

pub use self::{
    command::{main, tried},
    judging::timeline::{Held, ReportedLoss, Timeline},
    plan::{
        fault::Fault,
        system_under_test::{
            Connect, Expected, FaultInjector, Guarantee, InQuick, OwnFence, Reason, RecordCount,
            RecordCounter, Start, StartedStore, SystemUnderTest, Untried, Withheld,
        },
    },
    results::{
        page::page,
        report::Report,
        result::{Cell, FaultResult},
        tables::{NOT_TRIED, contradictions, matrix},
    },
};
