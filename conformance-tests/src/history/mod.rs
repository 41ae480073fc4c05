//! What clients saw, recorded, and a checker that sweeps over it.
//!
//! A [`Recorder`] writes down what one process saw of its acquisitions: when it asked, what it was
//! granted, until when it could rely on it, what it wrote to a fenced resource, and how the hold
//! ended. All times are on one clock, `CLOCK_BOOTTIME`, which the processes of a machine share, so
//! that the histories of several processes can be joined: a child prints [`History::to_lines`], its
//! parent reads them with [`History::from_lines`] and [`History::join`]s.
//!
//! [`check`] then looks for what the contract forbids. It never blames where the order of two things
//! cannot be known from outside: every time recorded at a begin is read before, and at an end after.

mod check;
mod event;
mod holds;
mod recorder;

pub use self::{
    check::{ALL_RULES, Rule, Violation, assert_clean, check},
    event::{Event, History, Op, What},
    holds::{Attempt, Hold, Holds},
    recorder::{Acquisition, Recorder},
};
