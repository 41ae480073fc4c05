//! SQLite.

mod cancelled;
mod clocks;
mod fence;
mod looks;
mod queue;
mod rows;
mod settings;
mod store;
mod versions;
