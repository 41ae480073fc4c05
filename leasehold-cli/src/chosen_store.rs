//! The store that the arguments choose, and how to open it.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leasehold::{Backend, Init, StoreUrl};

use crate::args::Wait;
use crate::exit::{Failure, cause};
use crate::store::{Surroundings, make_directory};
use crate::tunables::{CLOSE_LIMIT, LONGEST_STORE_FILE};

/// The store of `--store`, of `LEASEHOLD_STORE`, or the default one.
#[derive(Debug)]
pub(crate) struct ChosenStore {
    url: StoreUrl,
    /// The file of the default store. Its directory is created when the store is opened.
    file: Option<PathBuf>,
}

impl ChosenStore {
    /// Finds the store, by its URL or by a file with its URL. Does not open it.
    pub(crate) fn of(named: Option<&str>, file: Option<&Path>) -> Result<Self, Failure> {
        let read = file.map(url_in).transpose()?;
        let (url, file) = match named.or(read.as_deref()) {
            // Not treated as unset: with an empty variable in a script, each job would lock in the
            // file of its own user, instead of in the shared store.
            Some("") => {
                return Err(Failure::usage(
                    "the store URL in --store or LEASEHOLD_STORE is empty; \
                     leave it out for the default store",
                ));
            }
            Some(url) => (StoreUrl::new(url), None),
            None => {
                let file = Surroundings::here().default_store()?;
                (StoreUrl::new(format!("sqlite:{}", encoded(&file))), Some(file))
            }
        };
        Ok(Self { url: url.map_err(|error| Failure::of(&error))?, file })
    }

    pub(crate) fn url(&self) -> &StoreUrl {
        &self.url
    }

    /// Whether this is the default store and its file does not exist yet. Its settings are then the
    /// default ones.
    pub(crate) fn is_new(&self) -> bool {
        self.file.as_ref().is_some_and(|file| !file.exists())
    }

    /// Connects for `init`, which sets what the URL says.
    pub(crate) async fn open_for_init(
        &self,
        init: Init,
    ) -> Result<(Arc<dyn Backend>, Init), Failure> {
        if let Some(file) = &self.file {
            make_directory(file)?;
        }
        provide_cryptography();
        leasehold::open_for_init(&self.url, init).await.map_err(|error| Failure::of(&error))
    }

    /// Connects.
    pub(crate) async fn open(&self) -> Result<Arc<dyn Backend>, Failure> {
        self.open_within(Wait::AtMost(Duration::ZERO)).await
    }

    /// The same, and waits for a store that cannot be reached yet.
    pub(crate) async fn open_within(&self, wait: Wait) -> Result<Arc<dyn Backend>, Failure> {
        let wait = match wait {
            Wait::AtMost(wait) => wait,
            Wait::Forever => Duration::MAX,
        };
        if let Some(file) = &self.file {
            make_directory(file)?;
        }
        provide_cryptography();
        leasehold::open_within(&self.url, wait).await.map_err(|error| Failure::of(&error))
    }
}

/// Reads the URL in a file. No message shows the text of the file.
fn url_in(file: &Path) -> Result<String, Failure> {
    let fails = |why: &str| {
        Failure::usage(format_args!("cannot read the URL of a store from {file:?}: {why}"))
    };
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|open| open.take(LONGEST_STORE_FILE + 1).read_to_end(&mut bytes))
        .map_err(|error| fails(&cause(&error)))?;
    if bytes.len() as u64 > LONGEST_STORE_FILE {
        return Err(fails(&format!("it must have at most {LONGEST_STORE_FILE} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| fails("it must be UTF-8"))?;
    match text.trim() {
        "" => Err(fails("it is empty")),
        url if url.contains(char::is_control) => Err(fails("it must have one line")),
        url => Ok(url.to_owned()),
    }
}

/// Installs the provider of cryptography for the process, which `sslmode=verify-ca` needs. A
/// command may do this; the library leaves it to the application.
fn provide_cryptography() {
    #[cfg(all(any(feature = "mysql", feature = "postgres"), feature = "tls-ring"))]
    let _ = rustls::crypto::ring::default_provider().install_default();
    #[cfg(all(
        any(feature = "mysql", feature = "postgres"),
        feature = "tls-aws-lc",
        not(feature = "tls-ring")
    ))]
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

/// Closes a connection.
pub(crate) async fn close(store: &dyn Backend) {
    let _ = tokio::time::timeout(CLOSE_LIMIT, store.close()).await;
}

/// A path as a part of a URL. All characters except the plainest are percent-encoded.
fn encoded(path: &Path) -> String {
    let mut text = String::new();
    for &byte in path.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte) {
            text.push(byte.into());
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::USAGE;

    #[test]
    fn a_path_is_safe_in_a_url() {
        assert_eq!(encoded(Path::new("/home/ä b/l?%.db")), "/home/%C3%A4%20b/l%3F%25.db");
    }

    #[test]
    fn an_empty_url_is_not_the_default_store() {
        let failure = ChosenStore::of(Some(""), None).unwrap_err();
        assert_eq!(failure.code, USAGE);
        assert!(failure.message.contains("empty"), "{failure}");
    }

    #[test]
    fn an_unknown_scheme_is_named_and_a_password_is_not() {
        let failure = ChosenStore::of(Some("gopher://u:hunter2@h"), None).unwrap_err();
        assert_eq!(failure.code, USAGE);
        assert!(failure.message.contains("gopher") && failure.message.contains("must be one of"));
        assert!(!failure.message.contains("hunter2"), "{failure}");
    }
}
