//! The settings of a client, and the values that all other folders share.

mod agreed;
pub(crate) mod certificates;
mod settings;
pub(crate) mod topology;
pub(crate) mod version;

pub use self::{agreed::AgreedSettings, version::RECORD_VERSION};
pub(crate) use self::{
    settings::{Acknowledgement, Login, Settings, check_longest, check_memory_policy},
    topology::{Address, SentinelGroup, Topology},
};
