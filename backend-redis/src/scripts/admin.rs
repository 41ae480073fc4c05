//! The arguments of the scripts for operators.

use std::{sync::LazyLock, time::Duration};

use super::{arguments::Arguments, epoch::Layout, script::Script};

/// `KEYS`: those of [`Keys::of`](crate::keys::Keys::of). It has no arguments of its own.
pub(crate) static FORCE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("force.lua"), Layout::Apart));

/// `KEYS`: the epoch record, then lock and queue of each name. It has no arguments.
pub(crate) static INSPECT: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("inspect.lua"), Layout::Apart));

/// `KEYS`: the epoch record. Its argument is a random name.
pub(crate) static IDENTITY: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("identity.lua"), Layout::Apart));

/// `KEYS`: the epoch record.
pub(crate) static INIT: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("init.lua"), Layout::Apart));

/// The arguments of `init.lua`.
pub(crate) struct InitArguments {
    pub(crate) first_use: bool,
    pub(crate) reset_tokens: bool,
    /// `None` keeps the present value.
    pub(crate) longest: Option<Duration>,
    pub(crate) quarantine: Option<bool>,
}

impl InitArguments {
    pub(crate) fn arguments(&self) -> Arguments {
        let mut arguments = Arguments::default();
        arguments.add(match (self.first_use, self.reset_tokens) {
            (true, _) => "1",
            (false, true) => "2",
            (false, false) => "0",
        });
        match self.longest {
            Some(longest) => arguments.add(longest.as_micros()),
            None => arguments.add(""),
        };
        arguments.add(match self.quarantine {
            Some(true) => "on",
            Some(false) => "off",
            None => "",
        });
        arguments
    }
}
