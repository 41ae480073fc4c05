//! What the tests of this project's crates share. Not part of the public API.

mod event_recorder;
mod soup;
mod vault;

pub use self::{
    event_recorder::{EventRecorder, RecordedEvent},
    soup::soup,
    vault::{Answer, Vault},
};
