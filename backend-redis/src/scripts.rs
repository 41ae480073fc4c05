//! The Lua scripts, one file each behind a common beginning.

use std::sync::LazyLock;

use redis::Script as Hashed;

/// A script and its hash.
pub(crate) struct Script {
    pub(crate) source: &'static str,
    pub(crate) hash: String,
}

impl Script {
    fn new(source: &'static str) -> Self {
        Self { source, hash: Hashed::new(source).get_hash().to_owned() }
    }
}

macro_rules! scripts {
    ($($name:ident = $($file:literal)+;)*) => {
        $(pub(crate) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(concat!($(include_str!(concat!("scripts/", $file)), "\n"),+)));)*
    };
}

scripts! {
    ACQUIRE = "acquire_fast.lua" "common.lua" "acquire.lua";
    RELEASE = "release_fast.lua" "common.lua" "release.lua";
    ABANDON = "common.lua" "abandon.lua";
    FORCE = "common.lua" "force.lua";
    RAISE = "common.lua" "raise.lua";
    INIT = "common.lua" "init.lua";
    RENEW = "renew.lua";
    INSPECT = "inspect.lua";
    IDENTITY = "identity.lua";
    FENCE = "fence.lua";
}
