//! The arguments of `write.lua`: raises the number of a lock.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use backend_redis::node::{Node as Server, Script};
use lock_core::{LockName, OwnerId};

use super::{ScriptCall, arguments, watermark};

static WRITE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("write.lua")));

/// `lead` is how far the number may lead the node's clock; `None` if a node gave the number.
pub(crate) fn write(
    server: &Server,
    name: &LockName,
    owner: OwnerId,
    number: u64,
    lead: Option<Duration>,
) -> Arc<ScriptCall> {
    let [epoch, lock, ..] = server.keys(name, owner);
    let arguments = arguments!("write.lua":
        owner,
        wanted = number,
        watermark = watermark(name),
        lead = lead.map(|lead| lead.as_micros().to_string()).unwrap_or_default());
    ScriptCall::plain(&WRITE, [epoch, lock], arguments)
}
