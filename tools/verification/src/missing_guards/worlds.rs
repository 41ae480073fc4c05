//! Differential test of Lua scripts. The short way of a script, and a batch, must do the same as
//! the long way: for random requests in random states the answer, the data and the pushes must be
//! the same.

use std::{collections::BTreeMap, fmt::Write as _};

use ::redis::{Value, aio::MultiplexedConnection};
use lock_core::{Env as _, SystemEnv};
use servers::{Change, Redis, RedisOptions, Server as _, marker};

use super::redis::{parts, text};

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
    /// `worlds.lua`.
    #[must_use]
    pub fn requests(self, text: &str) -> Self {
        Self([&self.0, include_str!("worlds.lua"), text].join("\n"))
    }

    /// Asserts that there is no difference, and that each of `kinds`, such as `attempt short`, was
    /// tried often enough.
    pub async fn agree(&self, kinds: &[&str]) {
        let (_server, mut link) = start().await;
        // Each run tries other states.
        let seed = SystemEnv.random() as u64 % 1_000_000_000;
        let count = compare(&mut link, &self.0, seed).await;
        let count = count.unwrap_or_else(|found| panic!("{found}"));
        for kind in kinds {
            let tried = count.get(*kind).copied().unwrap_or_default();
            assert!(tried >= STATES / 100, "{kind} was tried {tried} times: {count:?}");
        }
    }

    /// Asserts that each of these changes makes a difference.
    pub async fn find_out(&self, changes: &[Change<'_>]) {
        let (_server, mut link) = start().await;
        let mut missed = Vec::new();
        for change in changes {
            match compare(&mut link, &changed(&self.0, *change), 1).await {
                Err(found) if found.starts_with(FOUND) => {}
                other => missed.push(format!("{change:?}: {other:?}")),
            }
        }
        assert!(missed.is_empty(), "{missed:#?}");
    }
}

/// Begins the report of a difference.
const FOUND: &str = "with seed ";

/// Changes one guard everywhere in the script.
fn changed(script: &str, change: Change<'_>) -> String {
    let (name, to) = match change {
        Change::LeaveOut(name) => (name, ""),
        Change::Replace(name, to) => (name, to),
        Change::Text(from, to) => {
            assert!(script.contains(from), "{from:?} is in no script");
            return script.replace(from, to);
        }
    };
    let marker = marker(name);
    let mut parts = script.split(marker.as_str());
    let mut text = parts.next().unwrap_or_default().to_owned();
    let before = text.len();
    for part in parts {
        // The marker stood in front of a whole line.
        let rest = part.split_once('\n').map_or("", |(_, rest)| rest);
        text.extend([to, "\n", rest]);
    }
    assert!(text.len() > before, "guard {name:?} is in no script");
    text
}

async fn start() -> (Redis, MultiplexedConnection) {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let client = ::redis::Client::open(format!("redis://{}", server.address())).unwrap();
    let config = ::redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let link = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
    (server, link)
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
    let hash: String = load.query_async(link).await.map_err(|error| error.to_string())?;
    let mut count = BTreeMap::new();
    for seed in seed..seed + STATES {
        let mut run = ::redis::cmd("EVALSHA");
        run.arg(&hash).arg(0).arg(seed);
        let answer: Value = run.query_async(link).await.map_err(|error| error.to_string())?;
        let [kind, how, difference] = &parts(answer)[..] else { panic!("not an answer") };
        if !text(difference).is_empty() {
            return Err(format!("{FOUND}{seed}, {}: {}", text(kind), text(difference)));
        }
        *count.entry(format!("{} {}", text(kind), text(how))).or_default() += 1;
    }
    Ok(count)
}
