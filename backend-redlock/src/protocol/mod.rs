//! Decisions from the nodes' answers: votes, tokens, clocks, the expiry at a majority. Nothing here
//! does I/O.

pub mod clock;
pub(crate) mod grant_votes;
pub mod majority_expiry;
pub mod token;
pub mod vote;
