//! Certificates, and the provider of cryptography. Certificates that cannot be used are refused
//! when a store is described. Later, a connection would fail as if the server were down.

use std::sync::Arc;

use lock_core::{Error, ErrorKind};
#[cfg(all(feature = "tls-aws-lc", not(feature = "tls-ring")))]
use rustls::crypto::aws_lc_rs as own_provider;
#[cfg(feature = "tls-ring")]
use rustls::crypto::ring as own_provider;
use rustls::{
    RootCertStore,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::CertifiedKey,
};

/// The provider that the application installed for its process, otherwise our own. Ours is not
/// installed: the application decides what holds for the whole process.
///
/// # Errors
/// `Config` if there is neither.
pub(crate) fn provider() -> Result<Arc<CryptoProvider>, Error> {
    if let Some(provider) = CryptoProvider::get_default() {
        return Ok(Arc::clone(provider));
    }
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    return Ok(Arc::new(own_provider::default_provider()));
    #[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc")))]
    return Err(Error::new(
        ErrorKind::Config,
        "TLS needs a provider of cryptography: enable the feature tls-ring or tls-aws-lc, or install one as the \
         default of rustls in the application",
    ));
}

fn refuse(message: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

fn read(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    found.ok().filter(|found| !found.is_empty())
}

/// # Errors
/// `InvalidInput` if none of them can be trusted.
pub(crate) fn roots(pem: &[u8]) -> Result<RootCertStore, Error> {
    let mut store = RootCertStore::empty();
    let usable = read(pem).is_some_and(|found| found.into_iter().all(|one| store.add(one).is_ok()));
    let message = "the authorities (ca) cannot be read; must be one or more certificates in PEM";
    if usable { Ok(store) } else { Err(refuse(message)) }
}

/// # Errors
/// `InvalidInput` if they cannot be read, or the key is not that of the certificate. The error
/// shows nothing of them.
pub(crate) fn own(
    (chain, key): &(Vec<u8>, Vec<u8>),
    provider: &CryptoProvider,
) -> Result<CertifiedKey, Error> {
    let chain = read(chain).ok_or_else(|| {
        refuse("the client's certificate (cert) cannot be read; must be one or more in PEM")
    })?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| {
        refuse("the client's key (key) cannot be read; must be one in PEM, not encrypted")
    })?;
    CertifiedKey::from_der(chain, key, provider).map_err(|error| {
        refuse("the client's certificate (cert) and key (key) are not for each other")
            .with_source(error)
    })
}
