//! In place of `tls`, where the crate is built without it.

use lock_core::{Error, ErrorKind};
use zookeeper_client::{Client, Connector};

/// There is none.
#[derive(Clone)]
pub(crate) enum Tls {}

impl Tls {
    pub(crate) fn new(
        _servers: &[String],
        _ca: &[u8],
        _own: Option<&(Vec<u8>, Vec<u8>)>,
    ) -> Result<Self, Error> {
        let message =
            "TLS to ZooKeeper needs the feature tls-ring or tls-aws-lc, and this build has neither";
        Err(Error::new(ErrorKind::Config, message))
    }

    pub(super) async fn open(self, _: Connector, _servers: &str) -> Result<Client, Error> {
        match self {}
    }
}
