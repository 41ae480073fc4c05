//! The backend's scripts without the backend.

use std::sync::Arc;

use redis::{Script, aio::MultiplexedConnection};

#[path = "../../../backend-redis/src/scripts/text.rs"]
mod text;

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
        let acquire = include_str!("../../../backend-redis/src/scripts/acquire.lua");
        let release = include_str!("../../../backend-redis/src/scripts/release.lua");
        let [acquire, release] =
            [acquire, release].map(|source| Arc::new(Script::new(&text::whole(source))));
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
