//! The floor of Redis: `PING`; `SET` of a key with an expiry; and as the bare lock `SET NX PX` and
//! a script that compares and deletes. For Redlock: two `PING`s of all nodes.

use async_trait::async_trait;
use redis::{Script, aio::MultiplexedConnection};

use super::{Floor, Setting, Trouble};

const KEY: &str = "leasehold compare: floor";
const MARK: &str = "leasehold compare: floor's last token";
const OWNER: &str = "0123456789abcdef0123456789abcdef";
/// The expiry of all keys, in milliseconds.
const ENDS_IN: usize = 10_000;

/// Deletes a key that still has our value. KEYS: 1 the key; ARGV: 1 the value. Answers 1, or 0.
const FREE: &str = "
    if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
    return 0";
/// Takes a free key, with a token above all before. KEYS: 1 the key, 2 the last token; ARGV: 1 the
/// value, 2 milliseconds until it ends. Answers the token, or 0.
const MINT: &str = "
    if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
    local now = redis.call('TIME')
    local last = tonumber(redis.call('GET', KEYS[2])) or 0
    local token = string.format('%.0f', math.max(now[1] * 1000000 + now[2], last + 1))
    redis.call('SET', KEYS[2], token, 'PX', ARGV[2])
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return token";

/// One Redis.
struct Node {
    connection: MultiplexedConnection,
    mint: Script,
    free: Script,
}

pub(super) async fn one(url: &str) -> Result<Box<dyn Floor>, Trouble> {
    Ok(Box::new(Node::open(url).await?))
}

impl Node {
    async fn open(url: &str) -> Result<Self, Trouble> {
        if url.starts_with("rediss") {
            // This driver uses the crypto provider of the process, which a command may install.
            rustls::crypto::ring::default_provider().install_default().ok();
        }
        let client = redis::Client::open(url)?;
        Ok(Self {
            connection: client.get_multiplexed_async_connection().await?,
            mint: Script::new(MINT),
            free: Script::new(FREE),
        })
    }

    async fn free(&self, key: &str) -> Result<(), Trouble> {
        let mut free = self.free.prepare_invoke();
        free.key(key).arg(OWNER);
        let _: i64 = free.invoke_async(&mut self.connection.clone()).await?;
        Ok(())
    }

    async fn text(&self, command: &str, of: &str) -> Option<String> {
        let mut command = redis::cmd(command);
        command.arg(of).query_async(&mut self.connection.clone()).await.ok()
    }
}

fn own(task: usize) -> String {
    format!("{KEY} {task}")
}

#[async_trait]
impl Floor for Node {
    async fn ping(&self) -> Result<(), Trouble> {
        Ok(redis::cmd("PING").exec_async(&mut self.connection.clone()).await?)
    }

    async fn write(&self) -> Result<(), Trouble> {
        let mut set = redis::cmd("SET");
        set.arg(KEY).arg(1).arg("PX").arg(ENDS_IN);
        Ok(set.exec_async(&mut self.connection.clone()).await?)
    }

    async fn pair(&self, task: usize) -> Result<(), Trouble> {
        let key = own(task);
        let mut set = redis::cmd("SET");
        set.arg(&key).arg(OWNER).arg("NX").arg("PX").arg(ENDS_IN);
        set.exec_async(&mut self.connection.clone()).await?;
        self.free(&key).await
    }

    fn pair_is(&self) -> &'static str {
        "SET NX PX, and a script that compares and deletes"
    }

    async fn pair_of_many(&self, task: usize) -> Result<(), Trouble> {
        let key = own(task);
        let mut mint = self.mint.prepare_invoke();
        mint.key(&key).key(MARK).arg(OWNER).arg(ENDS_IN);
        let _: redis::Value = mint.invoke_async(&mut self.connection.clone()).await?;
        self.free(&key).await
    }

    fn pair_of_many_is(&self) -> &'static str {
        "a script that takes a key and mints a token, and one that compares and deletes"
    }

    async fn about(&self) -> Vec<Setting> {
        let mut about = Vec::new();
        let server = self.text("INFO", "server").await.unwrap_or_default();
        let version = server.lines().find_map(|line| line.strip_prefix("redis_version:"));
        about.extend(version.map(|version| Setting::new("version", version.trim())));
        for name in ["appendonly", "appendfsync", "save", "maxmemory-policy", "io-threads"] {
            let mut get = redis::cmd("CONFIG");
            get.arg("GET").arg(name);
            let answer: Result<Vec<String>, _> =
                get.query_async(&mut self.connection.clone()).await;
            if let Ok([name, value]) = answer.as_deref() {
                about.push(Setting::new(name, value));
            }
        }
        about
    }

    fn counts(&self) -> Option<&'static str> {
        Some("scripts")
    }

    async fn count(&self) -> Option<u64> {
        let stats = self.text("INFO", "commandstats").await?;
        let calls = |line: &str| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let script = ["eval", "evalsha", "fcall"].contains(&name.trim_end_matches("_ro"));
            rest.split(',').next().filter(|_| script)?.parse::<u64>().ok()
        };
        Some(stats.lines().filter_map(calls).sum())
    }

    async fn close(&self) {
        // If this fails, the keys expire.
        let mut delete = redis::cmd("DEL");
        delete.arg(KEY).arg(MARK);
        for task in 0..crate::measurement::MANY {
            delete.arg(own(task));
        }
        let _ = delete.exec_async(&mut self.connection.clone()).await;
    }
}

/// The nodes of a Redlock. A call is over when the slowest node has answered.
#[cfg(feature = "redlock")]
struct Quorum(Vec<Node>);

#[cfg(feature = "redlock")]
pub(super) async fn quorum(url: &str) -> Result<Box<dyn Floor>, Trouble> {
    let (scheme, rest) = url.split_once("://").ok_or("not a Redlock URL")?;
    let scheme = if scheme == "redlocks" { "rediss" } else { "redis" };
    let urls = rest.trim_end_matches('/').split(',').map(|host| format!("{scheme}://{host}"));
    let nodes =
        futures_util::future::try_join_all(urls.map(|url| async move { Node::open(&url).await }))
            .await?;
    Ok(Box::new(Quorum(nodes)))
}

#[cfg(feature = "redlock")]
#[async_trait]
impl Floor for Quorum {
    async fn ping(&self) -> Result<(), Trouble> {
        futures_util::future::try_join_all(self.0.iter().map(Floor::ping)).await.map(drop)
    }

    async fn write(&self) -> Result<(), Trouble> {
        futures_util::future::try_join_all(self.0.iter().map(Floor::write)).await.map(drop)
    }

    async fn pair(&self, _: usize) -> Result<(), Trouble> {
        self.ping().await?;
        self.ping().await
    }

    fn pair_is(&self) -> &'static str {
        "a PING to all nodes at once, until the slowest has answered, twice"
    }

    async fn about(&self) -> Vec<Setting> {
        let mut about = vec![Setting::new("nodes", self.0.len().to_string())];
        if let Some(node) = self.0.first() {
            about.extend(node.about().await);
        }
        about
    }

    fn counts(&self) -> Option<&'static str> {
        Some("scripts, on all nodes together")
    }

    async fn count(&self) -> Option<u64> {
        let counts = futures_util::future::join_all(self.0.iter().map(Floor::count)).await;
        counts.into_iter().sum()
    }

    async fn close(&self) {
        futures_util::future::join_all(self.0.iter().map(Floor::close)).await;
    }
}
