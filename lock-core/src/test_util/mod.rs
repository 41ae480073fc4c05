//! What the tests of this project's crates share. Not for others.

mod heard;
mod soup;

pub use self::{
    heard::{Heard, Told},
    soup::soup,
};
