//! The three calls that a store must have.

use std::fmt::Debug;

use lock_core::{Error, async_trait};

/// A version of an object, as the store names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(pub String);

/// An object with its version.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Object {
    /// The content.
    pub bytes: Vec<u8>,
    /// The version of this content.
    pub version: Version,
    /// When the store wrote it, in microseconds since 1970 on the store's clock. `None` if the
    /// store does not say.
    pub modified_micros: Option<u64>,
}

impl Object {
    /// An object of a store that does not say when it wrote it.
    #[must_use]
    pub fn new(bytes: Vec<u8>, version: Version) -> Self {
        Self { bytes, version, modified_micros: None }
    }
}

/// The answer to a conditional write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// The object has the new content, and this version.
    Written(Version),
    /// Another version is there, or the store could not decide. The caller reads the object to
    /// learn which: a write that was carried out may be answered with a refusal after a repeat on
    /// the way.
    Refused,
}

/// A store that compares and swaps, such as a bucket.
///
/// # Guarantees
///
/// A read that begins after a write was answered sees that write or a later one. Each write makes a
/// version that the object never had, given that its content was never there.
///
/// # Durations
///
/// The caller limits the time of each call.
///
/// # For implementers
///
/// No call repeats a write by itself. The fewer the store's own words, the better: an error may not
/// show a password.
#[async_trait]
pub trait CasStore: Debug + Send + Sync + 'static {
    /// Reads an object; `None` if it is not there.
    ///
    /// # Errors
    /// `Auth`, `Config` or `Unavailable`.
    async fn get(&self, key: &str) -> Result<Option<Object>, Error>;

    /// Writes an object if it has the version `expected`, or if it is not there for `None`.
    ///
    /// # Errors
    /// `Auth` or `Config` if the store has refused the write for good. After any other error it may
    /// have carried it out.
    async fn put_if(
        &self,
        key: &str,
        bytes: Vec<u8>,
        expected: Option<&Version>,
    ) -> Result<Put, Error>;

    /// The next keys that begin with `prefix` and come after `after`, in the order of their bytes;
    /// none after the last.
    ///
    /// # Errors
    /// `Auth`, `Config` or `Unavailable`.
    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, Error>;
}
