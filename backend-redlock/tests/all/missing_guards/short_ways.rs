//! acquire_fast.lua and batch.lua do the same as acquire.lua and free.lua.

use servers::Change;
use verification::missing_guards::{self, Setup, Verdict, Worlds};

use super::node::{ACQUIRE, ACQUIRE_SHARED, BATCH, FREE};

pub(super) struct BothWays(missing_guards::BothWays);

#[async_trait::async_trait]
impl Setup for BothWays {
    async fn start(changes: &[Change<'_>]) -> Self {
        let worlds = Worlds::default()
            .script("acquire", ACQUIRE.text())
            .script("long_acquire", ACQUIRE_SHARED.text())
            .script("free", FREE.text())
            .script("batch", BATCH.text());
        Self(worlds.start(include_str!("requests.lua"), changes).await)
    }

    fn altered(&self) -> u64 {
        self.0.altered
    }
}

pub(super) async fn short_ways_do_what_long_ways_do(scripts: &mut BothWays) -> Verdict {
    scripts.0.agree(&["attempt short", "attempt long", "batch short"]).await
}
