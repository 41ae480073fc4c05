//! A fence for data in ZooKeeper, in the user's own multi.

use lock_core::{Error, ErrorKind, FenceError, FencingToken, LockName, Stale};
use zookeeper_client::{
    Client, CreateMode, Error as Refusal, MultiWriteError, MultiWriteResult, MultiWriter,
};

use crate::{
    error::{of_read, of_write, of_writes},
    keys::layout::Layout,
    session::Access,
    tunables::TRIES,
};

/// Guards writes by a fencing token: a token older than one that was admitted writes nothing.
///
/// A separate node holds the highest token of a resource. The multi that writes the data also
/// checks and writes this node. A token lower than an admitted one is refused for ever, whichever
/// store it came from.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use backend_zookeeper::{Fence, zookeeper_client::Client};
///
/// let url = "zookeeper://127.0.0.1:2181";
/// let locks = lock_core::LockClient::new(backend_zookeeper::connect(url).await?);
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let fence = Fence::new("/fences");
///
/// let guard = locks.lock("nightly-report").acquire().await?;
/// // An error if a later holder has written: then nothing was changed.
/// let write = fence.write(&client, "report", guard.token(), |writer| {
///     writer.add_set_data("/report", b"42 orders", None)
/// });
/// write.await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Fence {
    layout: Layout,
    access: Access,
}

impl Fence {
    /// A fence whose nodes are all under the path `prefix`, such as `/fences`. All writers of a
    /// resource must use the same prefix.
    #[must_use]
    pub fn new(prefix: impl AsRef<str>) -> Self {
        Self { layout: Layout::new(prefix.as_ref()), access: Access::Open }
    }

    /// Whether only clients with the same user may use the nodes that this fence makes. Without it,
    /// everybody may: who writes the highest token there keeps all holders from writing. Default:
    /// no.
    #[must_use]
    pub fn own_nodes(mut self, own: bool) -> Self {
        self.access = if own { Access::Creator } else { Access::Open };
        self
    }

    /// The node that holds a resource's highest token. It is made at the first write.
    ///
    /// # Errors
    /// `InvalidInput` for a resource that is no valid name.
    pub fn path(&self, resource: &str) -> Result<String, Error> {
        Ok(self.layout.directory(&LockName::new(resource)?))
    }

    /// Carries out the writes that `add` adds, in one step, if no token above `token` was admitted
    /// for `resource`. A holder may use the same token for several writes. `add` may be called
    /// several times; it must not write the fence's own node.
    ///
    /// # Errors
    /// [`FenceError::Stale`]: nothing was changed. [`FenceError::Store`]: ZooKeeper has refused a
    /// write, and nothing was changed; the fence's node contains something that no fence has
    /// written; or, with the kind `OutcomeUnknown`, the connection ended before the answer.
    ///
    /// # Cancel safety
    /// If the future is dropped, the writes may have been carried out, all or none.
    pub async fn write(
        &self,
        client: &Client,
        resource: &str,
        token: FencingToken,
        add: impl Fn(&mut MultiWriter<'_>) -> Result<(), Refusal> + Send + Sync,
    ) -> Result<Vec<MultiWriteResult>, FenceError> {
        let of_fence = |error: Error| FenceError::from(error.at("zookeeper", "fence"));
        let path = self.path(resource).map_err(of_fence)?;
        let (data, options) =
            (format!("{MARK}{token}"), CreateMode::Persistent.with_acls(self.access.acls()));
        for _ in 0..TRIES {
            let mut writer = client.new_multi_writer();
            let added = match client.get_data(&path).await {
                Ok((data_there, stat)) => {
                    let admitted = admitted(&data_there).ok_or_else(|| {
                        let message = format!(
                            "{path} in ZooKeeper holds no fencing token: nothing was changed"
                        );
                        of_fence(Error::new(ErrorKind::Config, message))
                    })?;
                    if admitted > token {
                        return Err(Stale::new(resource, token, admitted).into());
                    }
                    writer.add_set_data(&path, data.as_bytes(), Some(stat.version))
                }
                Err(Refusal::NoNode) => {
                    // The root of the servers is always there.
                    if !self.layout.prefix().is_empty() {
                        let made = client.mkdir(self.layout.prefix(), &options).await;
                        made.map_err(|error| of_fence(of_write(error).into()))?;
                    }
                    writer.add_create(&path, data.as_bytes(), &options)
                }
                Err(error) => return Err(of_fence(of_read(error))),
            };
            added.and_then(|()| add(&mut writer)).map_err(|error| of_fence(of_read(error)))?;
            match writer.commit().await {
                Ok(mut results) => {
                    results.remove(0);
                    return Ok(results);
                }
                // Another holder was faster.
                Err(MultiWriteError::OperationFailed {
                    index: 0,
                    source: Refusal::BadVersion | Refusal::NodeExists | Refusal::NoNode,
                }) => {}
                Err(error) => return Err(of_fence(of_writes(error).into())),
            }
        }
        let message = "others wrote the node of the fence again and again";
        Err(of_fence(Error::new(ErrorKind::Unavailable, message)))
    }
}

/// Stored tokens begin with this mark, so that another number in the same node is not mistaken for
/// a token.
const MARK: &str = "leasehold-token:";

fn admitted(data: &[u8]) -> Option<FencingToken> {
    let digits = std::str::from_utf8(data).ok()?.strip_prefix(MARK)?;
    FencingToken::new(digits.parse().ok()?)
}
