//! TLS to the servers.

use std::{io, sync::Arc, time::Duration};

use lock_core::{Error, ErrorKind};
use tokio::{io::AsyncReadExt as _, net::TcpStream, time::timeout};
#[cfg(not(feature = "tls-ring"))]
use tokio_rustls::rustls::crypto::aws_lc_rs as own_provider;
#[cfg(feature = "tls-ring")]
use tokio_rustls::rustls::crypto::ring as own_provider;
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::CryptoProvider,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
    },
};
use zookeeper_client::{Client, Connector, Error as Refusal, TlsOptions};

use crate::error::of_connect;

/// How long a server may take to refuse a certificate after the handshake.
const REFUSED_WITHIN: Duration = Duration::from_millis(500);

/// What the servers must show, and what the client shows.
#[derive(Clone)]
pub(crate) struct Tls {
    options: TlsOptions,
    /// The same, to find out why a connection failed.
    connector: TlsConnector,
}

/// The name that the certificate of a server must have.
fn name(server: &str) -> Option<ServerName<'static>> {
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
    ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).ok()
}

impl Tls {
    /// Takes an authority, and the client's certificate with its key, as PEM.
    pub(crate) fn new(
        servers: &[String],
        ca: &[u8],
        own: Option<&(Vec<u8>, Vec<u8>)>,
    ) -> Result<Self, Error> {
        let refuse = |message: String| Error::new(ErrorKind::InvalidInput, message);
        // The client library panics at a host without such a name.
        if let Some(server) = servers.iter().find(|server| name(server).is_none()) {
            return Err(refuse(format!(
                "server {server:?} has no name that a certificate can have"
            )));
        }
        // The client library uses the default of the process. An error means that there is one now.
        if CryptoProvider::get_default().is_none() {
            let _ = own_provider::default_provider().install_default();
        }
        let text = |pem| str::from_utf8(pem).unwrap_or_default();
        let options = TlsOptions::new().with_pem_ca(text(ca)).map_err(|_| {
            refuse(
                "the authorities (ca) cannot be read; must be one or more certificates in PEM"
                    .to_owned(),
            )
        })?;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(ca).flatten());
        let config = ClientConfig::builder().with_root_certificates(roots);
        let Some((chain, key)) = own else {
            let connector = TlsConnector::from(Arc::new(config.with_no_client_auth()));
            return Ok(Self { options, connector });
        };
        let unusable = || {
            let message = "the client's certificate (cert) and key (key) cannot be used; must be for each other, in \
                           PEM, and not encrypted";
            refuse(message.to_owned())
        };
        let options = options.with_pem_identity(text(chain), text(key)).map_err(|_| unusable())?;
        let chain = CertificateDer::pem_slice_iter(chain).flatten().collect();
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| unusable())?;
        let config = config.with_client_auth_cert(chain, key).map_err(|_| unusable())?;
        Ok(Self { options, connector: TlsConnector::from(Arc::new(config)) })
    }

    /// Opens a session with one of these servers.
    pub(super) async fn open(self, connector: Connector, servers: &str) -> Result<Client, Error> {
        let opened = connector.with_tls(self.options.clone()).secure_connect(servers).await;
        let error = match opened {
            Err(Refusal::NoHosts) => Refusal::NoHosts,
            opened => return opened.map_err(of_connect),
        };
        // The client library does not say why.
        for server in servers.split(',') {
            if let Some(cause) = self.failure(server).await {
                let message = "no server of ZooKeeper can be reached with TLS";
                return Err(Error::new(ErrorKind::Unavailable, message).with_source(cause));
            }
        }
        Err(of_connect(error))
    }

    /// Why there is no TLS with a server that accepts connections.
    async fn failure(&self, server: &str) -> Option<io::Error> {
        let (stream, name) = (TcpStream::connect(server).await.ok()?, name(server)?);
        match self.connector.connect(name, stream).await {
            // In TLS 1.3 a server refuses a certificate only now. It says nothing else.
            Ok(mut stream) => timeout(REFUSED_WITHIN, stream.read_u8()).await.ok()?.err(),
            Err(cause) => Some(cause),
        }
    }
}
