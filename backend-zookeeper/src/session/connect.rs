//! How a session is opened.

use std::{fmt, time::Duration};

use lock_core::{Credentials, CredentialsProvider, Error, ErrorKind};
use tokio::time::{Instant, timeout};
use zookeeper_client::{Acls, Client, Connector, SaslOptions};

use super::{runtime::runtime, tls::Tls};
use crate::error::{late, of_connect};

/// Who may use the nodes that this client makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everybody.
    #[default]
    Open,
    /// Who has the same credentials. Others may not even read.
    Creator,
}

impl Access {
    pub(crate) fn acls(self) -> Acls<'static> {
        match self {
            Self::Open => Acls::anyone_all(),
            Self::Creator => Acls::creator_all(),
        }
    }
}

/// The servers, and how to reach them.
#[derive(Clone)]
pub(crate) struct Connect {
    pub(crate) servers: String,
    pub(crate) credentials: Option<CredentialsProvider>,
    /// `tickTime` of the servers, or longer.
    pub(crate) tick: Duration,
    pub(crate) timeout: Duration,
    pub(crate) access: Access,
    /// Whether the password goes by SASL's DIGEST-MD5.
    pub(crate) sasl: bool,
    pub(crate) tls: Option<Tls>,
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connect").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl Connect {
    /// Opens a session of this length. The server may give another length.
    pub(super) async fn open(&self, length: Duration) -> Result<Client, Error> {
        let mut connector = Client::connector().with_session_timeout(length).with_fail_eagerly();
        if let Some(provider) = &self.credentials {
            let given = provider.ask(Instant::now() + self.timeout).await?;
            connector = match self.sasl {
                true => with_sasl(connector, &given),
                false => with_digest(connector, &given),
            };
        }
        let (servers, tls, limit) = (self.servers.clone(), self.tls.clone(), self.timeout);
        let opening = async move {
            match tls {
                Some(tls) => tls.open(connector, &servers).await,
                None => connector.connect(&servers).await.map_err(of_connect),
            }
        };
        // The connection lives on the runtime where it was opened. The task ends at the limit.
        let opened = runtime()?.spawn(async move {
            let opened = timeout(limit, opening).await;
            opened.unwrap_or_else(|_| Err(late(ErrorKind::Unavailable, limit)))
        });
        opened.await.map_err(|error| {
            Error::new(ErrorKind::Unavailable, "the connection was not made").with_source(error)
        })?
    }
}

fn with_sasl(connector: Connector, given: &Credentials) -> Connector {
    let user = given.user().unwrap_or_default().to_owned();
    connector.with_sasl(SaslOptions::digest_md5(user, given.password().to_owned()))
}

fn with_digest(connector: Connector, given: &Credentials) -> Connector {
    let user = given.user().unwrap_or_default();
    let auth = format!("{user}:{}", given.password());
    connector.with_auth("digest", auth.as_bytes())
}
