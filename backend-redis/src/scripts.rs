//! The Lua scripts, one file each behind a common beginning.

use std::{borrow::Cow, sync::LazyLock};

use redis::Script as Hashed;

/// A script and its hash.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) source: Cow<'static, str>,
    pub(crate) hash: String,
    /// It takes what is the same for all in one argument, and unpacks it only where it needs the parts.
    pub(crate) packed: bool,
}

impl Script {
    pub(crate) fn new(source: impl Into<Cow<'static, str>>) -> Self {
        let source = source.into();
        let packed = source.contains(PACKED);
        Self { hash: Hashed::new(&source).get_hash().to_owned(), source, packed }
    }
}

/// The line by which a script unpacks them.
const PACKED: &str = "local run, replid, longest, quarantine, margin =";

/// What every script that may grant begins with.
pub(crate) const COMMON: &str =
    concat!(include_str!("scripts/limits.lua"), "\n", include_str!("scripts/common.lua"));

macro_rules! scripts {
    ($($name:ident = $($file:literal)+;)*) => {
        $(pub(crate) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(concat!($(include_str!(concat!("scripts/", $file)), "\n"),+)));)*
    };
}

scripts! {
    ACQUIRE = "open.lua" "take.lua" "acquire_fast.lua" "unpack_acquire.lua" "limits.lua" "common.lua" "acquire.lua";
    RELEASE = "release_fast.lua" "open.lua" "take.lua" "release_next.lua" "limits.lua" "hand_on.lua"
        "unpack_release.lua" "common.lua" "release.lua";
    BATCH = "batch.lua";
    ABANDON = "limits.lua" "common.lua" "abandon.lua";
    FORCE = "limits.lua" "common.lua" "force.lua";
    RAISE = "limits.lua" "common.lua" "raise.lua";
    INIT = "limits.lua" "common.lua" "init.lua";
    RENEW = "renew.lua";
    INSPECT = "inspect.lua";
    IDENTITY = "identity.lua";
    FENCE = "fence.lua";
}
