//! What no lock on one multiplexed connection to Redis can be faster than.

use std::sync::Arc;

use redis::{Script, aio::MultiplexedConnection};

use crate::{Call, call};

/// Bare commands in place of a lock.
#[derive(Clone, Debug)]
pub struct Redis {
    connection: MultiplexedConnection,
    take: Arc<Script>,
    drop: Arc<Script>,
}

impl Redis {
    /// On this connection.
    #[must_use]
    pub fn new(connection: MultiplexedConnection) -> Self {
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
    pub async fn bare(mut self, task: usize) {
        let key = format!("floor:{task}");
        let mut set = redis::cmd("SET");
        set.arg(&key).arg("owner").arg("NX").arg("PX").arg(10_000);
        let _: redis::Value = set.query_async(&mut self.connection).await.unwrap();
        self.free(key).await;
    }

    /// The same with a script that mints a token, as short as can be.
    pub async fn minting(mut self, task: usize) {
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

    /// So many PINGs, one after the other.
    pub async fn pings(mut self, count: usize) {
        for _ in 0..count {
            let _: String = redis::cmd("PING").query_async(&mut self.connection).await.unwrap();
        }
    }
}

/// PING on all nodes of a Redlock at once, until the slowest has answered; twice, as an acquire and a
/// release.
pub async fn pings_of_all(url: &str) -> Call {
    let mut connections = Vec::new();
    for host in url.split_once("://").unwrap().1.split(',') {
        let node = redis::Client::open(format!("redis://{host}")).unwrap();
        connections.push(node.get_multiplexed_async_connection().await.unwrap());
    }
    call(move |_| {
        let connections = connections.clone();
        async move {
            for _ in 0..2 {
                let all = connections.iter().cloned().map(|mut connection| async move {
                    let _: String = redis::cmd("PING").query_async(&mut connection).await.unwrap();
                });
                futures_util::future::join_all(all).await;
            }
        }
    })
}
