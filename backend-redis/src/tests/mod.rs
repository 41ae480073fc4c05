//! Tests of several folders at once.

mod fuzz;
mod strangers;
mod watching;
mod ways;
