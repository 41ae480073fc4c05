//! SQLite.

mod cancelled;
mod checks;
mod clocks;
mod fence;
mod place;
mod queue;
mod readers;
mod rows;
mod settings;
mod store;
mod versions;
