//! Any store of the crate `object_store`, as a store that compares and swaps.

use std::sync::Arc;

use futures_util::StreamExt as _;
use lock_core::{Error, ErrorKind, async_trait};
use object_store::{
    Attribute, Error as StoreError, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions,
    UpdateVersion, path::Path,
};

use crate::cas::{CasStore, Object, Put, Version};

/// The most keys of one page, as in the clouds' own listings.
const PAGE: usize = 1_000;

/// The objects of a bucket whose keys begin with a prefix.
///
/// The store must support [`PutMode::Create`] and [`PutMode::Update`], and must not repeat writes
/// by itself.
#[derive(Clone)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
}

/// The store may know credentials, so only the prefix is shown.
impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").field("prefix", &self.prefix.as_ref()).finish_non_exhaustive()
    }
}

impl Objects {
    /// The objects under `prefix`, which may be empty.
    ///
    /// # Errors
    /// `InvalidInput` for a prefix with empty parts, `.`, `..` or characters that are not allowed.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str) -> Result<Self, Error> {
        let prefix = Path::parse(prefix).map_err(|error| {
            let message = format!("the prefix {prefix:?} cannot be a part of keys");
            Error::new(ErrorKind::InvalidInput, message).with_source(error)
        })?;
        Ok(Self { store, prefix })
    }

    fn path(&self, key: &str) -> Result<Path, Error> {
        let path = Path::parse(format!("{}/{key}", self.prefix).trim_start_matches('/'));
        path.map_err(|error| {
            Error::new(ErrorKind::InvalidInput, "no key of a lock").with_source(error)
        })
    }
}

fn failed(error: StoreError) -> Error {
    let (kind, message) = match &error {
        StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => {
            (ErrorKind::Auth, "the store refuses this client")
        }
        StoreError::NotSupported { .. }
        | StoreError::NotImplemented { .. }
        | StoreError::InvalidPath { .. }
        | StoreError::UnknownConfigurationKey { .. } => {
            (ErrorKind::Config, "the store cannot do this")
        }
        _ => (ErrorKind::Unavailable, "the store does not answer as it should"),
    };
    // The answers of S3 and Azure repeat the request with its token, so only their code stays.
    let text = error.to_string();
    match text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>")) {
        Some((code, _)) => Error::new(kind, format!("{message}: {code}")),
        None => Error::new(kind, message).with_source(error),
    }
}

/// The names of a version in one word. Some stores compare by the tag, others by the number.
fn version(e_tag: Option<String>, number: Option<String>) -> Version {
    Version(format!("{}\n{}", e_tag.unwrap_or_default(), number.unwrap_or_default()))
}

fn update(version: &Version) -> UpdateVersion {
    let (e_tag, number) = version.0.split_once('\n').unwrap_or((&version.0, ""));
    let given = |word: &str| (!word.is_empty()).then(|| word.to_owned());
    UpdateVersion { e_tag: given(e_tag), version: given(number) }
}

#[async_trait]
impl CasStore for Objects {
    async fn get(&self, key: &str) -> Result<Option<Object>, Error> {
        let got = match self.store.get(&self.path(key)?).await {
            Err(StoreError::NotFound { .. }) => return Ok(None),
            got => got.map_err(failed)?,
        };
        let meta = got.meta.clone();
        let bytes = got.bytes().await.map_err(failed)?.to_vec();
        let modified_micros = u64::try_from(meta.last_modified.timestamp_micros()).ok();
        Ok(Some(Object { bytes, version: version(meta.e_tag, meta.version), modified_micros }))
    }

    async fn put_if(
        &self,
        key: &str,
        bytes: Vec<u8>,
        expected: Option<&Version>,
    ) -> Result<Put, Error> {
        let mode = expected.map_or(PutMode::Create, |version| PutMode::Update(update(version)));
        let mut options = PutOptions::from(mode);
        // No cache on the way answers in the store's place.
        options.attributes.insert(Attribute::CacheControl, "no-store".into());
        match self.store.put_opts(&self.path(key)?, bytes.into(), options).await {
            Ok(put) => Ok(Put::Written(version(put.e_tag, put.version))),
            Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => {
                Ok(Put::Refused)
            }
            Err(StoreError::NotFound { .. }) => {
                let message = "there is no such bucket or container";
                Err(Error::new(ErrorKind::Config, message))
            }
            Err(error) => Err(failed(error)),
        }
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, Error> {
        let folder = self.path(prefix.trim_end_matches('/'))?;
        let own = self.path("x")?.as_ref().len() - 1;
        let listing = match after {
            Some(after) => self.store.list_with_offset(Some(&folder), &self.path(after)?),
            None => self.store.list(Some(&folder)),
        };
        let keys = listing.take(PAGE).collect::<Vec<_>>().await;
        let key = |meta: Result<object_store::ObjectMeta, _>| {
            Ok(meta.map_err(failed)?.location.as_ref()[own..].to_owned())
        };
        keys.into_iter().map(key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_a_store_is_not_shown() {
        let answer = "403: <Error><Code>SignatureDoesNotMatch</Code><CanonicalRequest>\
                      x-amz-security-token:hunter2</CanonicalRequest></Error>";
        for error in [
            StoreError::PermissionDenied { path: "locks/a".into(), source: answer.into() },
            StoreError::Generic { store: "S3", source: answer.into() },
        ] {
            let error = failed(error);
            let shown = format!("{error:?} {error:#}");
            assert!(shown.contains("SignatureDoesNotMatch"), "{shown}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
}
