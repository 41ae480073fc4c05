//! TLS on the connection that commands go on.
//!
//! The redis crate makes it where it makes the connection (sentinels, subscriptions of their own), and what is
//! believed has to be the same here: the versions and the provider that are its default, and the system's
//! authorities, read anew and without exception, where none are given.

use std::{io, sync::Arc};

use lock_core::Error;
use redis::RedisError;
use rustls::{ClientConfig, RootCertStore, sign::SingleCertAndKey};
use rustls_native_certs::load_native_certs;
use tokio_rustls::TlsConnector;

use crate::{certificates, settings::Settings};

/// What makes a stream one with TLS.
pub(crate) fn connector(settings: &Settings) -> Result<TlsConnector, RedisError> {
    certificates::provide();
    // They were read when the store was described.
    let refused = |error: Error| io::Error::other(error);
    let roots = match &settings.roots {
        Some(pem) => certificates::roots(pem).map_err(refused)?,
        None => of_the_system()?,
    };
    let config = ClientConfig::builder().with_root_certificates(roots);
    let config = match &settings.identity {
        Some(own) => {
            let own = certificates::own(own).map_err(refused)?;
            config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own)))
        }
        None => config.with_no_client_auth(),
    };
    Ok(Arc::new(config).into())
}

fn of_the_system() -> Result<RootCertStore, RedisError> {
    let mut found = load_native_certs();
    if let Some(error) = found.errors.pop() {
        return Err(error.into());
    }
    let mut roots = RootCertStore::empty();
    found.certs.into_iter().try_for_each(|one| roots.add(one))?;
    Ok(roots)
}
