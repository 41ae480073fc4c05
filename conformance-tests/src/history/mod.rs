//! Records what clients saw, and checks it against the contract.
//!
//! A [`Recorder`] records the acquisitions of one process: when it asked, what it was granted,
//! until when it could rely on the guard, what it wrote to a fenced resource, and how the hold
//! ended. All times are of one clock, `CLOCK_BOOTTIME`, which the processes of a machine share. So
//! histories of several processes can be joined: a child prints [`History::to_lines`], and its
//! parent reads them with [`History::from_lines`] and [`History::join`]s them.
//!
//! [`check`] then finds what the contract forbids. If the order of two events is not known, it
//! reports nothing. For this reason the time of a begin is read before it, and the time of an end
//! after it.

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
