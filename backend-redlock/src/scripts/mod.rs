//! The Lua scripts that nodes run, one file each. Beside each stands the Rust file that writes its
//! arguments.
//!
//! The header of each script declares its keys and arguments.

pub(crate) mod acquire;
pub(crate) mod batch;
pub(crate) mod free;
pub(crate) mod renew;
pub(crate) mod write;

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use backend_redis::node::{Node as Server, Script};
use lock_core::LockName;

use crate::tunables::WATERMARKS;

/// Makes the arguments that a script declares, in the same order: checked at compile time. A list
/// of further ones, if the script declares it, is for the caller to add. Without a list, empty ones
/// at the end are left out: see `text.rs` of backend-redis.
macro_rules! arguments {
    ($script:literal: $($name:ident $(= $value:expr)?),* $(; $list:ident)?) => {{
        const _: () = assert!(
            backend_redis::node::declares(
                include_str!($script),
                concat!($(" ", stringify!($name),)* $(" ", stringify!($list), "...")?)
            ),
            "the script declares other arguments"
        );
        let arguments = vec![$(arguments!(@ $name $($value)?).to_string()),*];
        arguments!(# arguments $($list)?)
    }};
    (# $arguments:ident) => {{
        let mut arguments: Vec<String> = $arguments;
        arguments.truncate(arguments.iter().rposition(|last| !last.is_empty()).map_or(0, |at| at + 1));
        arguments
    }};
    (# $arguments:ident $list:ident) => { $arguments };
    (@ $name:ident $value:expr) => { $value };
    (@ $name:ident) => { $name };
}

use arguments;

static INSPECT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("inspect.lua")));
static HIGHEST: LazyLock<Script> = LazyLock::new(|| node("highest"));
static HELLO: LazyLock<Script> = LazyLock::new(|| node("hello"));

fn node(part: &str) -> Script {
    Script::part(include_str!("node.lua"), part)
}

/// One script call, the same for every node.
#[derive(Debug)]
pub(crate) struct ScriptCall {
    pub(crate) script: &'static Script,
    /// Whether it may grant.
    pub(crate) in_epoch: bool,
    pub(crate) keys: Vec<String>,
    pub(crate) arguments: Vec<String>,
}

impl ScriptCall {
    fn plain(
        script: &'static Script,
        keys: impl Into<Vec<String>>,
        arguments: Vec<String>,
    ) -> Arc<Self> {
        Arc::new(Self { script, in_epoch: false, keys: keys.into(), arguments })
    }

    fn granting(
        script: &'static Script,
        keys: impl Into<Vec<String>>,
        arguments: Vec<String>,
    ) -> Arc<Self> {
        Arc::new(Self { script, in_epoch: true, keys: keys.into(), arguments })
    }
}

/// Asks for a node's clock and settings.
pub(crate) fn hello(server: &Server) -> Arc<ScriptCall> {
    ScriptCall::plain(&HELLO, [server.epoch_key()], Vec::new())
}

/// Asks for a node's highest watermark.
pub(crate) fn highest(server: &Server) -> Arc<ScriptCall> {
    ScriptCall::plain(&HIGHEST, [server.epoch_key()], Vec::new())
}

/// Reads the state of some names on a node.
pub(crate) fn inspect(server: &Server, names: &[LockName]) -> Arc<ScriptCall> {
    let locks = names.iter().flat_map(|name| server.lock_and_queue(name));
    let keys: Vec<_> = [server.epoch_key()].into_iter().chain(locks).collect();
    ScriptCall::plain(&INSPECT, keys, Vec::new())
}

/// Milliseconds, rounded up.
fn millis(span: Duration) -> String {
    lock_core::whole_millis(span).to_string()
}

/// The watermark that a name uses on a node. It is the same for all clients (FNV-1a).
pub(crate) fn watermark(name: &LockName) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = name.as_str().bytes().fold(0xcbf2_9ce4_8422_2325, step);
    format!("mark{}", hash % WATERMARKS)
}
