//! Any store of the crate `object_store`, as a store that compares and swaps.

use std::sync::Arc;

use futures_util::StreamExt as _;
use lock_core::{Error, ErrorKind, async_trait};
use object_store::{
    Attribute, Error as StoreError, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions,
    UpdateVersion, path::Path,
};

use crate::{
    cas::{CasStore, Object, Put, Version},
    tunables::LONGEST_PREFIX,
};

/// The most keys of one page, as in the clouds' own listings.
const PAGE: usize = 1_000;
const READ: &str = "a read";

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
    /// `InvalidInput` for a prefix of more than 252 bytes, or with empty parts, `.`, `..` or
    /// characters that are not allowed.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str) -> Result<Self, Error> {
        let path = Path::parse(prefix).ok().filter(|_| prefix.len() <= LONGEST_PREFIX);
        let message = format!(
            "the prefix {prefix:?} must have at most {LONGEST_PREFIX} bytes, and no empty part, no \
             `.` or `..`, and no control characters"
        );
        Ok(Self { store, prefix: path.ok_or(Error::new(ErrorKind::InvalidInput, message))? })
    }

    /// A listing begins after any key, also after one of another program.
    fn path(&self, key: &str) -> Path {
        let path = format!("{}/{key}", self.prefix);
        Path::parse(&path).unwrap_or_else(|_| path.into())
    }
}

fn failed(error: StoreError, request: &str) -> Error {
    // The answers of S3 and Azure repeat the request with its token, so only their code stays.
    let text = error.to_string();
    let (kind, message) = match &error {
        StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => {
            (ErrorKind::Auth, format!("the store refuses this client {request}"))
        }
        // Amazon's answer, without a place to go to.
        StoreError::Generic { .. } if text.contains("redirect without LOCATION") => {
            let message = "the bucket is in another region than that of the URL or the environment";
            (ErrorKind::Config, message.to_owned())
        }
        StoreError::Generic { .. } if !text.contains("status code: 501") => {
            (ErrorKind::Unavailable, format!("the store does not answer {request} as it should"))
        }
        _ => (ErrorKind::Config, format!("the store cannot carry out {request}")),
    };
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
        let got = match self.store.get(&self.path(key)).await {
            Err(StoreError::NotFound { .. }) => return Ok(None),
            got => got.map_err(|error| failed(error, READ))?,
        };
        let meta = got.meta.clone();
        let bytes = got.bytes().await.map_err(|error| failed(error, READ))?.to_vec();
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
        let request = expected.map_or("a write with If-None-Match", |_| "a write with If-Match");
        let mut options = PutOptions::from(mode);
        // No cache on the way answers in the store's place.
        options.attributes.insert(Attribute::CacheControl, "no-store".into());
        match self.store.put_opts(&self.path(key), bytes.into(), options).await {
            Ok(put) => Ok(Put::Written(version(put.e_tag, put.version))),
            Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => {
                Ok(Put::Refused)
            }
            Err(StoreError::NotFound { .. }) => {
                let message = "there is no such bucket or container";
                Err(Error::new(ErrorKind::Config, message))
            }
            Err(error) => Err(failed(error, request)),
        }
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, Error> {
        let folder = self.path(prefix.trim_end_matches('/'));
        let own = self.path("x").as_ref().len() - 1;
        let listing = match after {
            Some(after) => self.store.list_with_offset(Some(&folder), &self.path(after)),
            None => self.store.list(Some(&folder)),
        };
        let keys = listing.take(PAGE).collect::<Vec<_>>().await;
        let key = |meta: Result<object_store::ObjectMeta, _>| {
            let meta = meta.map_err(|error| failed(error, "a listing"))?;
            Ok(meta.location.as_ref()[own..].to_owned())
        };
        // A console makes an object for a folder. Its name ends with `/`, which a path leaves out,
        // so the store lists it after its own path.
        let is_next = |key: &str| after.is_none_or(|after| key > after);
        let keys = keys.into_iter().map(key);
        keys.filter(|key| key.as_ref().map_or(true, |key| is_next(key))).collect()
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
            let error = failed(error, READ);
            let shown = format!("{error:?} {error:#}");
            assert!(shown.contains("SignatureDoesNotMatch"), "{shown}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }

    #[test]
    fn a_store_without_an_operation_is_told_which() {
        let source = "Server returned non-2xx status code: 501 Not Implemented: \
                      <Error><Code>NotImplemented</Code></Error>";
        let generic = StoreError::Generic { store: "S3", source: source.into() };
        let error = failed(generic, "a write with If-Match");
        assert_eq!(error.kind(), ErrorKind::Config);
        let text = error.to_string();
        assert!(text.contains("cannot carry out a write with If-Match: NotImplemented"), "{text}");
    }

    #[test]
    fn the_longest_prefix_leaves_room_for_the_longest_name() {
        let key = format!("locks/{}", "=00".repeat(255));
        for (length, ok) in [(LONGEST_PREFIX, true), (LONGEST_PREFIX + 1, false)] {
            let prefix = "p".repeat(length);
            let objects = Objects::new(Arc::new(object_store::memory::InMemory::new()), &prefix);
            assert_eq!(objects.is_ok(), ok, "{length}");
            match objects {
                Ok(objects) => assert_eq!(objects.path(&key).as_ref().len(), 1_024),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::InvalidInput);
                    let text = error.to_string();
                    assert!(text.contains("ppp\" must have at most 252 bytes"), "{text}");
                }
            }
        }
    }
}
