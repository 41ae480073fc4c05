//! Differential test of Lua scripts. The short way of a script, and a batch, must do the same as
//! the long way: for random requests in random states the answer, the data and the pushes must be
//! the same.

use std::{collections::BTreeMap, fmt::Write as _};

use ::redis::{Value, aio::MultiplexedConnection};
use lock_core::{Env as _, SystemEnv};
use servers::{Change, Redis, RedisOptions, Server as _, guard_length, marker};

use super::{
    redis::{parts, text},
    setup::Verdict,
};

/// How many states to try. A broken script is usually found in the first few hundred.
const STATES: u64 = 4_000;

/// The scripts to compare, as one Lua program.
#[derive(Debug, Default)]
pub struct Worlds(String);

impl Worlds {
    /// Adds a script, as a function of `redis`, `KEYS` and `ARGV`.
    #[must_use]
    pub fn script(mut self, name: &str, text: &str) -> Self {
        writeln!(self.0, "local function {name}(redis, KEYS, ARGV)\n{text}\nend").ok();
        self
    }

    /// Adds the text that makes the states and the requests; it must be the last one. See
    /// `worlds.lua`. Makes the changes, and starts a server.
    pub async fn start(self, requests: &str, changes: &[Change<'_>]) -> BothWays {
        let mut script = [&self.0, include_str!("worlds.lua"), requests].join("\n");
        let altered = changes.iter().map(|change| alter(&mut script, *change)).sum();
        let server = Redis::start(RedisOptions::new()).await.unwrap();
        let client = ::redis::Client::open(format!("redis://{}", server.address())).unwrap();
        let config = ::redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let link = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        BothWays { _server: server, link, script, altered }
    }
}

/// A server on which the short ways can be compared with the long ones.
pub struct BothWays {
    _server: Redis,
    link: MultiplexedConnection,
    script: String,
    /// How many guards were changed.
    pub altered: u64,
}

impl BothWays {
    /// `Err` if there is a difference. Each of `kinds`, such as `attempt short`, must be tried
    /// often enough.
    pub async fn agree(&mut self, kinds: &[&str]) -> Verdict {
        // Sound scripts are tried with other states in each run.
        let random = SystemEnv.random() as u64 % 1_000_000_000;
        let seed = if self.altered > 0 { 1 } else { random };
        let count = compare(&mut self.link, &self.script, seed).await?;
        for kind in kinds {
            let tried = count.get(*kind).copied().unwrap_or_default();
            assert!(tried >= STATES / 100, "{kind} was tried {tried} times: {count:?}");
        }
        Ok(())
    }
}

/// Changes one guard everywhere in the script. Returns how often.
fn alter(script: &mut String, change: Change<'_>) -> u64 {
    let Change::Guard(name, instead) = change else { panic!("{change:?} is no guard") };
    let (marker, mut count, mut from) = (marker(name), 0, 0);
    while let Some(at) = script[from..].find(&marker) {
        let at = from + at;
        let length = guard_length(&script.as_bytes()[at..], true).unwrap_or_default();
        script.replace_range(at..at + length, instead);
        (count, from) = (count + 1, at + instead.len());
    }
    count
}

/// Returns how often each kind of request was answered by the short and by the long way; `Err` is
/// the first difference.
async fn compare(
    link: &mut MultiplexedConnection,
    script: &str,
    seed: u64,
) -> Result<BTreeMap<String, u64>, String> {
    let mut load = ::redis::cmd("SCRIPT");
    load.arg("LOAD").arg(script);
    let no_program = |error| format!("running script: {error}");
    let hash: String = load.query_async(link).await.map_err(no_program)?;
    let mut count = BTreeMap::new();
    for seed in seed..seed + STATES {
        let mut run = ::redis::cmd("EVALSHA");
        run.arg(&hash).arg(0).arg(seed);
        let answer: Value = run.query_async(link).await.map_err(no_program)?;
        let [kind, how, difference] = &parts(answer)[..] else { panic!("not an answer") };
        if !text(difference).is_empty() {
            return Err(format!("with seed {seed}, {}: {}", text(kind), text(difference)));
        }
        *count.entry(format!("{} {}", text(kind), text(how))).or_default() += 1;
    }
    Ok(count)
}
