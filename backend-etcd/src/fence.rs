//! A fence for data in etcd, in the user's own transaction.

use etcd_client::{Compare, CompareOp, Txn, TxnOp, TxnOpResponse, TxnResponse};
use lock_core::{Error, ErrorKind, FenceError, FencingToken, Guard, Stale};

use crate::keys::entry::Held;

/// Guards writes by a fencing token: a token older than one that was admitted writes nothing.
///
/// A separate key holds the highest token of a resource. The transaction that writes the data also
/// compares and writes this key. A token lower than an admitted one is refused for ever, whichever
/// store it came from.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use backend_etcd::{
///     Fence,
///     etcd_client::{Client, TxnOp},
/// };
///
/// let locks = lock_core::LockClient::new(backend_etcd::connect("etcd://127.0.0.1:2379").await?);
/// let etcd = Client::connect(["127.0.0.1:2379"], None).await?;
/// let fence = Fence::new("fences/");
///
/// let guard = locks.lock("nightly-report").acquire().await?;
/// let write = TxnOp::put("report/today", "42 orders", None);
/// let guarded = fence.guard("report", guard.token(), [write]);
/// let answer = etcd.kv_client().txn(guarded).await?;
/// // An error if a later holder has written: then nothing was changed.
/// fence.admitted("report", guard.token(), &answer)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    prefix: String,
}

impl Fence {
    /// A fence whose keys all start with `prefix`, such as `fences/`. All writers of a resource
    /// must use the same prefix.
    #[must_use]
    pub fn new(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into() }
    }

    /// The key that holds a resource's highest token.
    #[must_use]
    pub fn key(&self, resource: &str) -> String {
        format!("{}{resource}", self.prefix)
    }

    /// A transaction that carries out `operations` if no token above `token` was admitted for
    /// `resource`. A holder may use the same token for several writes. The caller sends the
    /// transaction with its own client, and passes the answer to [`admitted`](Self::admitted).
    ///
    /// etcd allows only one operation per key in a transaction, so `operations` must not write the
    /// fence's own key.
    #[must_use]
    pub fn guard(
        &self,
        resource: &str,
        token: FencingToken,
        operations: impl Into<Vec<TxnOp>>,
    ) -> Txn {
        let key = self.key(resource);
        let mut writes: Vec<TxnOp> = operations.into();
        writes.push(TxnOp::put(key.as_str(), stored(token.get()), None));
        // A comparison of the value fails if the key does not exist.
        let first = Txn::new()
            .when([Compare::version(key.as_str(), CompareOp::Equal, 0)])
            .and_then(writes.clone())
            .or_else([TxnOp::get(key.as_str(), None)]);
        Txn::new()
            .when([
                // A value that no fence wrote begins differently, so it sorts below all tokens or
                // above them.
                Compare::value(key.as_str(), CompareOp::Greater, MARK),
                Compare::value(key.as_str(), CompareOp::Less, stored(token.get() + 1)),
            ])
            .and_then(writes)
            .or_else([TxnOp::txn(first)])
    }

    /// Whether a guarded transaction was carried out.
    ///
    /// # Errors
    /// [`FenceError::Stale`]: nothing was changed. [`FenceError::Store`]: the fence's key
    /// contains something that no fence has written, and nothing was changed; or the answer belongs
    /// to another transaction.
    pub fn admitted(
        &self,
        resource: &str,
        token: FencingToken,
        answer: &TxnResponse,
    ) -> Result<(), FenceError> {
        if answer.succeeded() {
            return Ok(());
        }
        let first = answer.op_responses().into_iter().find_map(|response| match response {
            TxnOpResponse::Txn(first) => Some(first),
            _ => None,
        });
        let Some(first) = first else { return Err(self.another(resource)) };
        if first.succeeded() {
            return Ok(());
        }
        let read = first.op_responses().into_iter().find_map(|response| match response {
            TxnOpResponse::Get(got) => Some(got),
            _ => None,
        });
        let read = read.ok_or_else(|| self.another(resource))?;
        match read.kvs().first().and_then(|pair| admitted(pair.value())) {
            Some(admitted) => Err(Stale::new(resource, token, admitted).into()),
            None => {
                let key = self.key(resource);
                Err(unreadable(format!(
                    "{key} in etcd holds no fencing token: nothing was changed"
                )))
            }
        }
    }

    fn another(&self, resource: &str) -> FenceError {
        let key = self.key(resource);
        unreadable(format!("the answer is not of a transaction that is guarded by {key}"))
    }
}

fn unreadable(message: String) -> FenceError {
    Error::new(ErrorKind::Config, message).at("etcd", "fence").into()
}

/// Stored tokens begin with this mark, so that another number under the same key is not mistaken
/// for a token.
const MARK: &str = "leasehold-token:";

/// etcd compares values byte by byte, so all have the same length: numbers below 2^53 have at most
/// 16 digits.
fn stored(token: u64) -> String {
    format!("{MARK}{token:016}")
}

fn admitted(value: &[u8]) -> Option<FencingToken> {
    let digits = std::str::from_utf8(value).ok()?.strip_prefix(MARK)?;
    FencingToken::new(digits.parse().ok()?)
}

/// The key of a lock that is held in etcd: a condition for transactions that must succeed only
/// while the lock is held.
///
/// This is stricter than [`Fence`]: a write is refused as soon as the lock is gone, even before the
/// next holder has it. The data must be in the same cluster as the lock.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use backend_etcd::{
///     HeldKey,
///     etcd_client::{Client, Txn, TxnOp},
/// };
///
/// let locks = lock_core::LockClient::new(backend_etcd::connect("etcd://127.0.0.1:2379").await?);
/// let etcd = Client::connect(["127.0.0.1:2379"], None).await?;
///
/// let guard = locks.lock("nightly-report").acquire().await?;
/// let held = HeldKey::of(&guard).ok_or("the lock is not in etcd")?;
/// let write = TxnOp::put("report/today", "42 orders", None);
/// let answer = etcd.kv_client().txn(Txn::new().when(held.is_held()).and_then([write])).await?;
/// assert!(answer.succeeded(), "the lock was lost, and nothing was written");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldKey {
    key: String,
    /// The create revision of the entry. A later grant may have the same key and the same lease.
    created: i64,
    /// The lease of this grant. A key that is kept for a minimum hold after its release has another
    /// lease.
    lease: i64,
}

impl HeldKey {
    /// The key of a guard; `None` if its lock is not in etcd, or in etcd and another store as well.
    #[must_use]
    pub fn of(guard: &Guard) -> Option<Self> {
        let held: &Held = guard.grant().state.as_ref()?.downcast_ref()?;
        Some(Self { key: held.key().to_owned(), created: held.created, lease: held.lease.id })
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The conditions that the lock is still held by that guard.
    #[must_use]
    pub fn is_held(&self) -> [Compare; 2] {
        [
            Compare::create_revision(self.key.as_str(), CompareOp::Equal, self.created),
            Compare::lease(self.key.as_str(), CompareOp::Equal, self.lease),
        ]
    }
}
