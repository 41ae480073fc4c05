//! A script and its hash.

use std::sync::LazyLock;

use redis::Script as Hashed;

use super::text::{part, whole};

/// A script and its hash.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) text: String,
    pub(crate) hash: String,
}

impl Script {
    pub(crate) fn new(script: &str) -> Self {
        let text = whole(script);
        Self { hash: Hashed::new(&text).get_hash().to_owned(), text }
    }
}

/// The text of a script that is a part of `server.lua`.
pub(crate) fn server(name: &str) -> String {
    part(include_str!("server.lua"), name).unwrap_or_default()
}

macro_rules! scripts {
    ($($name:ident $file:literal;)*) => {
        $(pub(crate) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(include_str!($file)));)*
    };
}

// The header of each names its keys, too.
scripts! {
    ABANDON "abandon.lua";
    ACQUIRE "acquire.lua";
    BATCH "batch.lua";
    FENCE "fence.lua";
    FIRST_USE "first_use.lua";
    FORCE "force.lua";
    HEARTBEAT "heartbeat.lua";
    IDENTITY "identity.lua";
    INIT "init.lua";
    INSPECT "inspect.lua";
    RAISE "raise.lua";
    READ_RECORD "read_record.lua";
    RELEASE "release.lua";
    RENEW "renew.lua";
    REOWN "reown.lua";
    WRITE_RECORD "write_record.lua";
}
