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
