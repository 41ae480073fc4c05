//! Two stores as one, while a fleet moves from the first to the second.

mod backend;
mod both;
mod fleet;
#[cfg(test)]
mod fuzz;
mod guarantees;
mod member;
mod phase;
mod record;
mod refusal;
mod single;
mod tunables;

pub use self::{
    backend::Migration,
    fleet::{Direction, Fleet, Step},
    member::Member,
    phase::Phase,
    refusal::Refusal,
};
