//! The proof: every kind of store under every fault that applies, with real servers and client
//! processes that are killed and paused, and a table of what held, made only of what was seen.
//!
//! A run starts the store, and some client processes: this program again. Each has tasks that wait and
//! try, hold long and short, cancel their waits and drop their guards, as a seed says. One process, the
//! *victim*, holds a lock, and while it does, one [`Fault`] happens; another process, the *heir*, waits
//! for that lock all the time. Everything that the clients see is recorded on one clock and then held
//! against the contract ([`Guarantee`]). Under each lock two registers are written: one behind a fence,
//! and one that asks for no token, which must lose an update when the holder is paused.
//!
//! What is expected is data ([`SystemUnderTest::withheld`]): a promise that a store does not make under a fault
//! has to be seen broken, or the run fails. A seed fixes what the clients set out to do; how their
//! steps fall in time is the machine's affair, so that a violation may need several runs to come back.

mod args;
mod clients;
mod command;
mod judging;
mod plan;
mod results;
mod trial;
mod trials;

pub use self::{
    command::{main, tried},
    judging::timeline::{Held, Timeline, Told},
    plan::{
        fault::Fault,
        system_under_test::{
            Absent, Census, Connect, Expected, Guarantee, InQuick, Lasting, OwnFence, Plant,
            Reason, Stage, Start, SystemUnderTest, Withheld,
        },
    },
    results::{
        page::page,
        report::Report,
        result::{Cell, FaultResult},
        tables::{NOT_TRIED, contradictions, matrix},
    },
};
