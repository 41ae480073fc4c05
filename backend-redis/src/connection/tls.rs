//! TLS for every kind of connection.
//!
//! The versions are the defaults of rustls. If no authorities are given, all those of the system
//! are trusted. They are read again for each connection; an authority that cannot be read is an
//! error.

use std::{io, sync::Arc};

use rustls::{ClientConfig, RootCertStore, sign::SingleCertAndKey};
use rustls_native_certs::load_native_certs;
use tokio_rustls::TlsConnector;

use crate::settings::{Settings, certificates};

/// Makes TLS streams.
pub(crate) fn connector(settings: &Settings) -> io::Result<TlsConnector> {
    // The certificates were checked when the store was described.
    let provider = certificates::provider().map_err(io::Error::other)?;
    let roots = match &settings.roots {
        Some(pem) => certificates::roots(pem).map_err(io::Error::other)?,
        None => of_the_system()?,
    };
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots);
    let config = match &settings.identity {
        Some(own) => {
            let own = certificates::own(own, &provider).map_err(io::Error::other)?;
            config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own)))
        }
        None => config.with_no_client_auth(),
    };
    Ok(Arc::new(config).into())
}

fn of_the_system() -> io::Result<RootCertStore> {
    let mut found = load_native_certs();
    if let Some(error) = found.errors.pop() {
        return Err(io::Error::other(error));
    }
    let mut roots = RootCertStore::empty();
    found.certs.into_iter().try_for_each(|one| roots.add(one)).map_err(io::Error::other)?;
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use lock_core::ErrorKind;
    use servers::{ClientCertificates, Redis, RedisOptions};

    use crate::builder::RedisBuilder;

    async fn server() -> (Redis, u16, Vec<u8>) {
        let options = RedisOptions::new().tls(ClientCertificates::NotAsked);
        // Its certificate is for the first of these addresses.
        let server = Redis::start(options.line("bind 127.0.0.1 127.0.0.2")).await.unwrap();
        let port = server.tls_address().unwrap().port();
        let ca = std::fs::read(&server.certificates().unwrap().ca).unwrap();
        (server, port, ca)
    }

    #[tokio::test]
    async fn a_server_is_believed_under_its_name_and_its_address_alone() {
        let ((_one, port, ca), (_other, _, others)) = (server().await, server().await);
        let at = |host| RedisBuilder::tls(host, port);
        for host in ["127.0.0.1", "localhost"] {
            at(host).roots(ca.clone()).build().await.unwrap();
        }
        for (builder, why) in [
            (at("127.0.0.2").roots(ca.clone()), "not valid for name"),
            (at("127.0.0.1"), "UnknownIssuer"),
            (at("127.0.0.1").roots(others.clone()), "BadSignature"),
        ] {
            let error = builder.build().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
            assert!(error.to_string().contains("no connection to the server"), "{error}");
            let cause = error.source().unwrap().to_string();
            assert!(cause.contains(why), "{why}: {cause}");
        }
        // One of several authorities is enough.
        at("127.0.0.1").roots([others, ca].concat()).build().await.unwrap();
    }
}
