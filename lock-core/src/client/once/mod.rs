//! Once per period: a job that runs once a day, on whichever machine. The record of the lock's name
//! remembers the last run.
//!
//! `decision` has the rules without I/O, `doubt` why there may be no answer, `last_run` the record,
//! `due_run` a run that has begun, and
//! `once` the calls to the store.

mod decision;
mod doubt;
mod due_run;
mod last_run;
mod once;

pub use self::{
    doubt::{Doubt, UnknownRun},
    due_run::DueRun,
    last_run::{LastRun, RunState},
    once::{Decision, IfUnknown, Once},
};
