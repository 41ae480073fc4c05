//! What follows from the nodes' answers: votes, tokens, clocks, the expiry at a majority. Nothing here asks a node.

pub mod clock;
pub(crate) mod held;
pub mod majority_expiry;
pub mod token;
pub mod vote;
