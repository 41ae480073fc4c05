//! What the tests of this project's crates share. Not part of the public API.

mod event_recorder;
mod soup;

pub use self::{
    event_recorder::{EventRecorder, RecordedEvent},
    soup::soup,
};
