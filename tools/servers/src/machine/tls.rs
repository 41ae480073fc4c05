//! Certificates for servers and clients of one test.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

use crate::{
    error::{Doing as _, Result},
    machine::{account::Account, session},
};

/// Whether a server asks its clients for certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Only the server shows one.
    NotAsked,
    /// A client without one is refused.
    Required,
}

/// PEM files of a fresh authority, and of a server and a client certified by it. The server's is
/// for `127.0.0.1` and `localhost`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Certificates {
    /// Certificate of the authority, which clients are to trust.
    pub ca: PathBuf,
    /// The server's certificate.
    pub server_cert: PathBuf,
    /// The server's key.
    pub server_key: PathBuf,
    /// The client's certificate, for user `client_name`.
    pub client_cert: PathBuf,
    /// The client's key (PKCS#8).
    pub client_key: PathBuf,
}

impl Certificates {
    /// Makes the files in `folder`. `client_name` is the common name in the client's certificate,
    /// which some servers take as the user.
    ///
    /// # Errors
    ///
    /// [`KitError::Certificate`](crate::KitError::Certificate) or an I/O error.
    pub fn create(folder: &Path, client_name: &str) -> Result<Self> {
        let ca_key = KeyPair::generate()?;
        let mut params = named("leasehold test authority")?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca = write(folder, "ca.crt", &params.self_signed(&ca_key)?.pem())?;
        let issuer = Issuer::new(params, ca_key);

        let issue = |file: &str, name: &str, hosts: &[&str], usage| -> Result<_> {
            let key = KeyPair::generate()?;
            let mut params = named(name)?;
            for host in hosts {
                params.subject_alt_names.push(match host.parse() {
                    Ok(ip) => rcgen::SanType::IpAddress(ip),
                    Err(_) => rcgen::SanType::DnsName((*host).try_into()?),
                });
            }
            params.extended_key_usages = usage;
            let cert = params.signed_by(&key, &issuer)?;
            Ok((
                write(folder, &format!("{file}.crt"), &cert.pem())?,
                write(folder, &format!("{file}.key"), &key.serialize_pem())?,
            ))
        };
        use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
        // etcd's gateway is a client of its own server, with the server's certificate.
        let hosts = ["127.0.0.1", "localhost"];
        let (server_cert, server_key) =
            issue("server", "localhost", &hosts, vec![ServerAuth, ClientAuth])?;
        let (client_cert, client_key) = issue("client", client_name, &[], vec![ClientAuth])?;
        Ok(Self { ca, server_cert, server_key, client_cert, client_key })
    }

    /// The file that only the server's account may read.
    pub(crate) fn give_key(&self, account: &Account) -> Result<()> {
        account.give(&self.server_key)
    }
}

fn named(common_name: &str) -> Result<CertificateParams> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    Ok(params)
}

fn write(folder: &Path, name: &str, pem: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    std::fs::write(&path, pem).doing(|| format!("write {}", path.display()))?;
    // PostgreSQL refuses a key that others may read.
    session::readable_by_all(&path, if name.ends_with(".key") { 0o600 } else { 0o644 })?;
    Ok(path)
}
