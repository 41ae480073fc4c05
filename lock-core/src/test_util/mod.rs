//! What the tests of this project's crates share. Not part of the public API.

mod heard;
mod soup;

pub use self::{
    heard::{Heard, Told},
    soup::soup,
};
