//! A fence for data in Redis.

use std::{fmt, sync::Arc};

use lock_core::{Error, ErrorKind, FenceError, FencingToken, Stale};

use crate::{
    backend::Redis,
    builder::RedisBuilder,
    keys::slots::slot_of_key,
    scripts::{
        FENCE, fenced_write,
        reply::{self, not_understood},
    },
    store::Store,
};

/// Sets keys with a fencing token, and refuses a token lower than one that it has seen.
///
/// The check and the write are one script. The highest token of a key is kept in a key beside it,
/// without expiry; in a cluster in the same slot. So both are equally durable: a loss of one is a
/// loss of both. If both must survive a crash, the server needs `appendonly yes` and `appendfsync
/// always`; with `everysec` a crash of the machine may lose the last second. A failover may lose
/// what no replica had. With [`wait_replicas`](RedisBuilder::wait_replicas), a write that too few
/// replicas have is an error. After such a loss nothing remembers the newer token, and an old one
/// is admitted.
///
/// ```no_run
/// # async fn example(guard: lock_core::Guard) -> Result<(), Box<dyn std::error::Error>> {
/// let fence = backend_redis::Fence::connect("redis://localhost").await?;
/// fence.set("charge 17", "begun", guard.token()).await?;
/// # Ok(()) }
/// ```
pub struct Fence {
    store: Arc<Store>,
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence").field("settings", &self.store.settings).finish()
    }
}

impl Fence {
    /// A fence on the store that `url` describes, as for [`connect`](crate::connect).
    ///
    /// # Errors
    /// As [`connect`](crate::connect).
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let builder =
            crate::builder::url::parse(url, "").map_err(|error| error.at("redis", "connect"))?;
        Self::build(builder).await
    }

    /// A fence on the store of a builder.
    ///
    /// # Errors
    /// As [`RedisBuilder::build`].
    pub async fn build(builder: RedisBuilder) -> Result<Self, Error> {
        let open = async {
            builder.settings.check()?;
            Redis::open(builder.settings).await
        };
        let redis = open.await.map_err(|error| error.at("redis", "connect"))?;
        Ok(Self { store: redis.store })
    }

    /// Sets `key` to `value`, unless a higher token was admitted for `key`. The same token may be
    /// used again, since a holder may write more than once.
    ///
    /// # Errors
    /// [`FenceError::Stale`]: nothing was written. [`FenceError::Store`]: the server's answer is
    /// missing or is an error; `OutcomeUnknown` also if too few replicas have the write.
    ///
    /// # Cancel safety
    /// A dropped call may have written.
    pub async fn set(
        &self,
        key: &str,
        value: impl AsRef<[u8]>,
        token: FencingToken,
    ) -> Result<(), FenceError> {
        let keys = [self.store.keys.fence(key), key.to_owned()];
        let asked = async {
            let arguments = fenced_write(token, value.as_ref());
            let slot = slot_of_key(key);
            let ran = self.store.run_in_slot(slot, &FENCE, &keys, &arguments);
            let (answer, connection) = ran.await?;
            let (written, admitted) = match reply::list(answer)?.as_slice() {
                [written, admitted] => (reply::number(written)? == 1, reply::token(admitted)?),
                _ => return Err(not_understood()),
            };
            if let Some(wanted) = self.store.settings.acknowledgement().filter(|_| written) {
                connection.acknowledged(wanted).await.map_err(|error| {
                    let message = "it was written, and a failover may lose it";
                    Error::new(ErrorKind::OutcomeUnknown, message).with_source(error)
                })?;
            }
            Ok((written, admitted))
        };
        let (written, admitted) = asked.await.map_err(|error: Error| error.at("redis", "fence"))?;
        if written {
            return Ok(());
        }
        Err(Stale::new(key, token, admitted).into())
    }
}
