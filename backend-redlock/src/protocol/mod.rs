//! What follows from the nodes' answers: votes, tokens, clocks, validity. Nothing here asks a node.

pub mod clock;
pub(crate) mod held;
pub mod token;
pub mod validity;
pub mod vote;
