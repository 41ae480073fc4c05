//! An example for authors of stores: a store in a folder on a local disk, and all that is needed to
//! run the suite on it.

mod backend;
mod folder;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use conformance_tests::{Harness, SetUpError, Store};
use lock_core::{Backend, Error};

use self::backend::Directory;

pub(crate) struct InAFolder;

#[async_trait]
impl Harness for InAFolder {
    fn name(&self) -> &'static str {
        "directory"
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        let folder = tempfile::tempdir()?;
        Ok(Store::new(folder.path().display().to_string(), folder))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        Ok(Arc::new(Directory::new(address)))
    }

    /// Each write is flushed, which takes long on a busy disk.
    fn lease(&self) -> Duration {
        Duration::from_secs(2)
    }

    /// The store has no queue, no push, no shared locks and no records.
    fn skips(&self) -> &'static [&'static str] {
        &["fair", "pushes", "shared", "records", "hands_over"]
    }
}
