//! What no lock on one multiplexed connection can be faster than, and the peers' pairs.

use std::{sync::Arc, time::Duration};

use redis::{Script, aio::MultiplexedConnection};

/// Bare commands in place of a lock.
#[derive(Clone)]
pub(crate) struct Floor {
    connection: MultiplexedConnection,
    take: Arc<Script>,
    drop: Arc<Script>,
}

impl Floor {
    pub(crate) fn new(connection: MultiplexedConnection) -> Self {
        let take = "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
            local t = redis.call('TIME')
            local n = math.max(t[1] * 1000000 + t[2], (tonumber(redis.call('GET', KEYS[2])) or 0) + 1)
            local text = string.format('%.0f', n)
            redis.call('SET', KEYS[2], text)
            redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
            return text";
        let drop =
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
            return 0";
        Self { connection, take: Arc::new(Script::new(take)), drop: Arc::new(Script::new(drop)) }
    }

    /// `SET NX PX`, and a script that compares and deletes.
    pub(crate) async fn bare(mut self, task: usize) {
        let key = format!("floor:{task}");
        let mut set = redis::cmd("SET");
        set.arg(&key).arg("owner").arg("NX").arg("PX").arg(10_000);
        let _: redis::Value = set.query_async(&mut self.connection).await.unwrap();
        self.free(key).await;
    }

    /// The same with a script that mints a token, as short as can be.
    pub(crate) async fn minting(mut self, task: usize) {
        let key = format!("floor:{task}");
        let mut call = self.take.prepare_invoke();
        call.key(&key).key("floor:mark").arg("owner").arg(10_000);
        let _: redis::Value = call.invoke_async(&mut self.connection).await.unwrap();
        self.free(key).await;
    }

    async fn free(&mut self, key: String) {
        let mut call = self.drop.prepare_invoke();
        let freed: i64 =
            call.key(&key).arg("owner").invoke_async(&mut self.connection).await.unwrap();
        assert_eq!(freed, 1);
    }

    pub(crate) async fn pings(mut self, count: usize) {
        for _ in 0..count {
            let _: String = redis::cmd("PING").query_async(&mut self.connection).await.unwrap();
        }
    }
}

pub(crate) async fn rslock(manager: rslock::LockManager, task: usize) {
    let lock =
        manager.lock(format!("rslock {task}").as_str(), Duration::from_secs(10)).await.unwrap();
    manager.unlock(&lock).await;
}

macro_rules! source {
    ($($file:literal)+) => {
        concat!($(include_str!(concat!("../../../backend-redis/src/scripts/", $file)), "\n"),+)
    };
}

/// The very scripts of the backend, sent by the driver with texts that were made before: what they cost
/// the server, and nothing that the backend does.
#[derive(Clone)]
pub(crate) struct Scripts {
    connection: MultiplexedConnection,
    acquire: Arc<Script>,
    release: Arc<Script>,
    epoch: String,
}

impl Scripts {
    pub(crate) async fn load(mut connection: MultiplexedConnection) -> Self {
        let info: String = redis::cmd("INFO").query_async(&mut connection).await.unwrap();
        let field = |name: &str| {
            let field = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.to_owned());
            info.lines().find_map(field).unwrap()
        };
        let epoch = format!("{} {} 30000000 on", field("run_id"), field("master_replid"));
        let acquire =
            source!("take.lua" "acquire_fast.lua" "unpack_acquire.lua" "common.lua" "acquire.lua");
        let release = source!("release_fast.lua" "take.lua" "release_next.lua" "unpack_release.lua" "common.lua" "release.lua");
        let [acquire, release] = [acquire, release].map(|source| Arc::new(Script::new(source)));
        Self { connection, acquire, release, epoch }
    }

    pub(crate) async fn pair(mut self) {
        const OWNER: &str = "0123456789abcdef0123456789abcdef";
        let keys = ["epoch", "lock:by hand", "queue:by hand", "places:by hand", "gone:by hand"];
        let keys = keys.map(|key| format!("leasehold:{{0}}:{key}"));
        let mut call = self.acquire.prepare_invoke();
        for key in &keys {
            call.key(key);
        }
        call.arg(&self.epoch).arg("9007199254740991").arg(OWNER).arg(10_000).arg("bench");
        let token: String = call.invoke_async(&mut self.connection).await.unwrap();
        assert_eq!(token.len(), 16);
        let mut call = self.release.prepare_invoke();
        for key in &keys[..4] {
            call.key(key);
        }
        call.arg(&self.epoch).arg("9007199254740991").arg(OWNER);
        let freed: i64 = call.invoke_async(&mut self.connection).await.unwrap();
        assert_eq!(freed, 1);
    }
}
