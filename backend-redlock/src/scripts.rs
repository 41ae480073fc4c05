//! The Lua scripts, one file each.

use std::sync::LazyLock;

use backend_redis::node::Script;

/// One node's vote.
pub(crate) static ACQUIRE: LazyLock<Script> = LazyLock::new(|| {
    Script::in_epoch(include_str!("scripts/acquire_fast.lua"), include_str!("scripts/acquire.lua"))
});
/// Votes on plain attempts and gives back, for many tasks.
pub(crate) static BATCH: LazyLock<Script> =
    LazyLock::new(|| Script::plain(include_str!("scripts/batch.lua")));
/// Gives back.
pub(crate) static FREE: LazyLock<Script> =
    LazyLock::new(|| Script::plain(include_str!("scripts/free.lua")));
/// Renews a batch.
pub(crate) static RENEW: LazyLock<Script> =
    LazyLock::new(|| Script::plain(include_str!("scripts/renew.lua")));
/// Raises a number.
pub(crate) static WRITE: LazyLock<Script> =
    LazyLock::new(|| Script::plain(include_str!("scripts/write.lua")));
/// Looks at locks.
pub(crate) static LOOK: LazyLock<Script> =
    LazyLock::new(|| Script::plain(include_str!("scripts/look.lua")));
/// Asks for the highest watermark.
pub(crate) static HIGHEST: LazyLock<Script> =
    LazyLock::new(|| Script::plain(include_str!("scripts/highest.lua")));
/// Asks for clock and settings.
pub(crate) static HELLO: LazyLock<Script> =
    LazyLock::new(|| Script::plain(include_str!("scripts/hello.lua")));
