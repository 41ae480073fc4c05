//! Two stores as one, while all processes of an application move from the first store to the
//! second.

#![warn(missing_debug_implementations)]

mod backend;
mod both;
mod end_phase;
mod fleet;
#[cfg(test)]
mod fuzz;
mod guarantees;
mod member;
mod phase;
mod record;
mod records;
mod refusal;
mod tunables;

pub use self::{
    backend::Migration,
    fleet::{Direction, Fleet, Step},
    member::Member,
    phase::Phase,
    refusal::Refusal,
};
