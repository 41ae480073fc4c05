//! The arguments of `renew.lua`: renews many grants.

use std::sync::{Arc, LazyLock};

use backend_redis::node::{Node as Server, Script};
use lock_core::Grant;

use super::{ScriptCall, arguments, millis};

static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("renew.lua")));

/// `late` is the clock after which a node's clock is ahead.
pub(crate) fn renew(server: &Server, late: u64, grants: &[&Grant]) -> Arc<ScriptCall> {
    let mut keys = vec![server.epoch_key()];
    let mut arguments = arguments!("renew.lua": ahead_after = late; grants);
    for grant in grants {
        keys.push(server.lock_key(&grant.name));
        arguments.extend([grant.owner.to_string(), millis(grant.lease)]);
    }
    ScriptCall::plain(&RENEW, keys, arguments)
}
