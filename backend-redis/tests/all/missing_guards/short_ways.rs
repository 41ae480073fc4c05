//! The common cases of acquire.lua and release.lua, and batch.lua, do the same as the rest of these
//! scripts.

use servers::{Change, guard_length, marker};
use verification::missing_guards::{self, Setup, Verdict, Worlds};

use super::server::{ACQUIRE, BATCH, RELEASE};

pub(super) struct BothWays(missing_guards::BothWays);

#[async_trait::async_trait]
impl Setup for BothWays {
    async fn start(changes: &[Change<'_>]) -> Self {
        let worlds = Worlds::default()
            .script("acquire", &ACQUIRE)
            .script("long_acquire", &long_way(&ACQUIRE, "free_tombstone", "if false then"))
            .script("release", &RELEASE)
            .script("long_release", &long_way(&RELEASE, "release_plain", "plain = false"))
            .script("batch", &BATCH);
        Self(worlds.start(include_str!("requests.lua"), changes).await)
    }

    fn altered(&self) -> u64 {
        self.0.altered
    }
}

/// A script without its common case. `guard` names the first variant of the condition for that.
fn long_way(script: &str, guard: &str, never: &str) -> String {
    let (before, _) = script.split_once(&marker(guard)).expect("no common case");
    let behind = &script[before.len()..];
    let length = guard_length(behind.as_bytes(), true).unwrap();
    [before, never, &behind[length..]].concat()
}

pub(super) async fn short_ways_do_what_long_ways_do(scripts: &mut BothWays) -> Verdict {
    let kinds = ["attempt short", "attempt long", "release short", "release long", "batch short"];
    scripts.0.agree(&kinds).await
}
