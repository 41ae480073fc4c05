//! SQLite.

mod cancelled;
mod checks;
mod clocks;
mod fence;
mod place;
mod queue;
mod readers;
mod records;
mod rows;
mod settings;
mod store;
mod versions;
