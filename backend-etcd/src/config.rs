//! How a store is described: by a builder or a URL.

use std::{fmt, sync::Arc, time::Duration};

use etcd_client::{Certificate, Client, ConnectOptions, Identity, TlsOptions};
use lock_core::{
    Backend, ConnectionSecurity, Credentials, CredentialsProvider, Error, ErrorKind, PLAINTEXT,
    SeenOptions, is_loopback, plaintext_refusal,
};
use percent_encoding::percent_decode_str;
use url::Url;

use crate::{
    keys::{layout::KeyLayout, settings::check_longest},
    rpc::{Login, Members, Rpc, failure, late},
    store::Store,
    tunables,
};

/// Describes a store in etcd.
#[derive(Clone)]
pub struct EtcdBuilder {
    endpoints: Vec<String>,
    user: Option<(String, String)>,
    credentials: Option<CredentialsProvider>,
    tls: Option<TlsOptions>,
    prefix: String,
    longest_lease: Option<Duration>,
    spare_leases: usize,
    timeout: Duration,
    plaintext: bool,
}

impl EtcdBuilder {
    /// The beginning of all keys by default.
    pub const DEFAULT_PREFIX: &'static str = "leasehold/";
    /// How many spare leases of each length are kept by default.
    pub const DEFAULT_SPARE_LEASES: usize = tunables::POOL;
    const FORM: &'static str = "the URL of an etcd store is etcd://HOST:PORT,HOST:PORT?options";

    /// The cluster with these members, such as `10.0.0.1:2379`. None has a user or a password in it: see [`user`](Self::user).
    #[must_use]
    pub fn new<E: Into<String>>(endpoints: impl IntoIterator<Item = E>) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            user: None,
            credentials: None,
            tls: None,
            prefix: Self::DEFAULT_PREFIX.to_owned(),
            longest_lease: None,
            spare_leases: Self::DEFAULT_SPARE_LEASES,
            timeout: tunables::TIMEOUT,
            plaintext: false,
        }
    }

    /// Authenticates as this user, again when etcd's token has expired. Default: no user.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some((name.into(), password.into()));
        self
    }

    /// Sets the provider that is asked for the user and the password in place of [`user`](Self::user): in `build`, and when etcd no longer
    /// accepts the client's token, because it has expired or the password was changed. A user is needed. The call counts
    /// in the time limit of the connection or request that needs it. Default: none.
    #[must_use]
    pub fn credentials(mut self, provider: CredentialsProvider) -> Self {
        self.credentials = Some(provider);
        self
    }

    /// Connects by TLS and trusts servers that this certificate authority signed (PEM). Default: no
    /// TLS.
    #[must_use]
    pub fn tls(mut self, authority: impl AsRef<[u8]>) -> Self {
        let options = self.tls.take().unwrap_or_default();
        self.tls = Some(options.ca_certificate(Certificate::from_pem(authority)));
        self
    }

    /// Authenticates by this certificate and its key (PEM); implies TLS. Default: none.
    #[must_use]
    pub fn client_certificate(
        mut self,
        certificate: impl AsRef<[u8]>,
        key: impl AsRef<[u8]>,
    ) -> Self {
        let options = self.tls.take().unwrap_or_default();
        self.tls = Some(options.identity(Identity::from_pem(certificate, key)));
        self
    }

    /// Whether a password may go unencrypted over a network, to any server that answers for a host. Otherwise the client
    /// refuses a password without TLS unless all hosts are this machine. Default: no.
    #[must_use]
    pub fn plaintext(mut self, allowed: bool) -> Self {
        self.plaintext = allowed;
        self
    }

    fn security(&self) -> ConnectionSecurity {
        let of = |endpoint: &String| {
            let host = endpoint.strip_prefix("http://").unwrap_or(endpoint);
            let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
            match is_loopback(host) {
                true => ConnectionSecurity::Local,
                false if self.tls.is_some() || host.starts_with("https://") => {
                    ConnectionSecurity::Verified
                }
                false => ConnectionSecurity::Plain,
            }
        };
        self.endpoints.iter().map(of).min().unwrap_or(ConnectionSecurity::Plain)
    }

    /// The beginning of all keys. Default: `leasehold/`, so that `etcdctl lock leasehold/NAME` locks the
    /// same as `NAME` here.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The longest lease that the store should have; a store that has another is refused. Default: the store's, or
    /// 30 s for a new store.
    #[must_use]
    pub fn longest_lease(mut self, longest: Duration) -> Self {
        self.longest_lease = Some(longest);
        self
    }

    /// How many unused leases of each length the client keeps at most, so that an acquire need not ask for one: 0 to
    /// 1,000. They are refilled as fast as they are used, end by themselves otherwise, and are revoked when the
    /// client closes. Default: 64.
    #[must_use]
    pub fn spare_leases(mut self, most: usize) -> Self {
        self.spare_leases = most;
        self
    }

    /// The time limit of a call: 1 ms to 1 h. Default: 5 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Connects, makes the settings if there are none, and compares them.
    ///
    /// # Errors
    /// `InvalidInput` for a setting that is not allowed; `Unavailable`, `Timeout`, `OutcomeUnknown`,
    /// `Auth` or `Config` for a cluster that cannot be used.
    pub async fn build(self) -> Result<Arc<dyn Backend>, Error> {
        self.open().await.map_err(|error| error.at("etcd", "connect"))
    }

    async fn open(self) -> Result<Arc<dyn Backend>, Error> {
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidInput, message));
        if self.endpoints.is_empty() {
            return refuse("no endpoint of etcd is given; at least one is needed".to_owned());
        }
        if self.endpoints.iter().any(|endpoint| endpoint.contains('@')) {
            let message = "an endpoint of etcd has an @ in it, and is not shown, since a password may stand before it; allowed is \
                           HOST:PORT, and the user in `user` or `credentials`";
            return refuse(message.to_owned());
        }
        if let Some(longest) = self.longest_lease {
            check_longest(longest)?;
        }
        if self.user.is_some() && self.credentials.is_some() {
            let message =
                "a user is given, and a provider of credentials, too; needs one of the two";
            return refuse(message.to_owned());
        }
        if self.spare_leases > tunables::LARGEST_POOL {
            let (asked, most) = (self.spare_leases, tunables::LARGEST_POOL);
            return refuse(format!("spare_leases {asked} must be between 0 and {most}"));
        }
        if !tunables::TIMEOUTS.contains(&self.timeout) {
            let shown = humantime::format_duration(self.timeout);
            return refuse(format!("timeout {shown} must be between 1ms and 1h"));
        }
        // The driver takes the application's provider of cryptography, then its own, and panics without any.
        #[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc")))]
        if rustls::crypto::CryptoProvider::get_default().is_none()
            && (self.tls.is_some() || self.endpoints.iter().any(|at| at.starts_with("https:")))
        {
            let message = "TLS needs a provider of cryptography; needed is the feature tls-ring or tls-aws-lc, or \
                           one that the application installed as rustls's default";
            return Err(Error::new(ErrorKind::Config, message));
        }
        let security = self.security();
        let has_password = self.credentials.is_some()
            || self.user.as_ref().is_some_and(|(_, password)| !password.is_empty());
        if has_password && security == ConnectionSecurity::Plain && !self.plaintext {
            return Err(plaintext_refusal("TLS (ca=FILE, or cert=FILE and key=FILE)"));
        }
        let mut options = ConnectOptions::new()
            .with_connect_timeout(self.timeout)
            // A connection that hangs is given up, and so are calls and streams on it. etcd accepts pings only while
            // there is a stream.
            .with_keep_alive(tunables::PING_EVERY, tunables::PING_ANSWER)
            .with_keep_alive_while_idle(false)
            // A member that is cut off from the others must say so instead of keeping us waiting.
            .with_require_leader(true);
        if let Some(tls) = self.tls {
            options = options.with_tls(tls);
        }
        let user = self.user.map(|(name, password)| Credentials::new(name, password).into());
        let login = Login::new(self.credentials.or(user));
        let by = tokio::time::Instant::now() + self.timeout;
        let members = Members::new();
        let connecting =
            Client::connect_with_balanced_channel(&self.endpoints, Some(options), members.clone());
        let client = match tokio::time::timeout_at(by, connecting).await {
            Ok(client) => client.map_err(|error| Error::from(failure(error)))?,
            Err(_) => return Err(late(self.timeout)),
        };
        let rpc = Rpc::new(client, login, members, self.timeout);
        rpc.log_in(by).await?;
        let layout = KeyLayout::new(self.prefix);
        Ok(Store::open(rpc, layout, security, self.longest_lease, self.spare_leases).await?)
    }
}

impl fmt::Debug for EtcdBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One with a password in it is refused, but not before `build`.
        let shown = |endpoint: &String| match endpoint.rsplit_once('@') {
            Some((_, host)) => format!("…@{host}"),
            None => endpoint.clone(),
        };
        f.debug_struct("EtcdBuilder")
            .field("endpoints", &self.endpoints.iter().map(shown).collect::<Vec<_>>())
            .field("user", &self.user.as_ref().map(|(name, _)| name))
            .field("tls", &self.tls.is_some())
            .field("prefix", &self.prefix)
            .field("longest_lease", &self.longest_lease)
            .field("spare_leases", &self.spare_leases)
            .field("timeout", &self.timeout)
            .finish()
    }
}

/// Opens the store that a URL describes:
/// `etcd://USER:PASSWORD@HOST:PORT,HOST:PORT?prefix=leasehold/&longest_lease=30s&spare_leases=64&timeout=5s&\
/// plaintext=on&ca=FILE&cert=FILE&key=FILE`, where all but a host may be left out. `ca`, or `cert` and `key`,
/// turn TLS on. A password goes to another machine without TLS only with `plaintext=on`.
///
/// # Errors
/// As [`EtcdBuilder::build`]; `InvalidInput` for a URL that is not of this form; `Config` for a file
/// that cannot be read. No message shows the URL.
pub async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error> {
    parse(url).map_err(|error| error.at("etcd", "connect"))?.build().await
}

pub(crate) fn parse(url: &str) -> Result<EtcdBuilder, Error> {
    let refuse = |message: String| Error::new(ErrorKind::InvalidInput, message);
    let form = || refuse(EtcdBuilder::FORM.to_owned());
    let rest = url.strip_prefix("etcd://").ok_or_else(form)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (Some(user), hosts),
        None => (None, authority),
    };
    // A URL has one host; each of ours is checked as the host of its own.
    let mut endpoints = Vec::new();
    for host in hosts.split(',') {
        let url = Url::parse(&format!("http://{host}")).map_err(|_| form())?;
        let named = url.host_str().filter(|_| url.path() == "/").ok_or_else(form)?;
        let port = if host.ends_with(":80") { 80 } else { url.port().unwrap_or(2379) };
        endpoints.push(format!("{named}:{port}"));
    }
    let mut builder = EtcdBuilder::new(endpoints);
    if let Some(user) = user {
        let decode = |text: &str| percent_decode_str(text).decode_utf8().map(Into::<String>::into);
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        let name = decode(name).map_err(|_| form())?;
        builder = builder.user(name, decode(password).map_err(|_| form())?);
    }
    let options = Url::parse(&format!("etcd://host{rest}")).map_err(|_| form())?;
    if !matches!(options.path(), "" | "/") || options.fragment().is_some() {
        return Err(form());
    }
    // A password with a `?` that was not encoded ends up among the options.
    let secret = rest.contains('@');
    let read = |key: &str, file: &str| {
        std::fs::read(file).map_err(|error| {
            let file = if secret { "" } else { file };
            let message = format!("the file of {key} in the URL cannot be read: {file}");
            Error::new(ErrorKind::Config, message).with_source(error)
        })
    };
    let (mut certificate, mut private) = (None, None);
    let mut given = SeenOptions::default();
    for (key, value) in options.query_pairs() {
        given.once(&key)?;
        let shown = if secret { key.to_string() } else { format!("{key}={value}") };
        let duration = || {
            humantime::parse_duration(&value)
                .map_err(|_| refuse(format!("{shown} in the URL is not a duration such as 30s")))
        };
        builder = match &*key {
            "prefix" => builder.prefix(value),
            "longest_lease" => builder.longest_lease(duration()?),
            "timeout" => builder.timeout(duration()?),
            "spare_leases" => builder.spare_leases(value.parse().map_err(|_| {
                refuse(format!("{shown} in the URL must be a number from 0 to 1000"))
            })?),
            PLAINTEXT => match &*value {
                "on" => builder.plaintext(true),
                "off" => builder.plaintext(false),
                _ => {
                    let message = format!("{shown} in the URL must be on or off");
                    return Err(refuse(message));
                }
            },
            "ca" => builder.tls(read(&key, &value)?),
            "cert" => {
                certificate = Some(read(&key, &value)?);
                builder
            }
            "key" => {
                private = Some(read(&key, &value)?);
                builder
            }
            // Not repeated: its name may be a part of a password, too.
            _ => {
                return Err(refuse(
                    "an option in the URL of an etcd store is not known; it must be one of prefix, \
                     longest_lease, spare_leases, timeout, plaintext, ca, cert, key"
                        .to_owned(),
                ));
            }
        };
    }
    match (certificate, private) {
        (None, None) => Ok(builder),
        (Some(certificate), Some(key)) => Ok(builder.client_certificate(certificate, key)),
        _ => Err(refuse("cert and key in the URL need each other".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_url_names_members_user_and_options() {
        let builder = parse("etcd://h1:80,[::1]:2380,h3?prefix=a/&timeout=2s").unwrap();
        assert_eq!(builder.endpoints, ["h1:80", "[::1]:2380", "h3:2379"]);
        assert_eq!(builder.prefix, "a/");
        assert_eq!(builder.timeout, Duration::from_secs(2));
        let builder = parse("etcd://me:se%40cret@h1").unwrap();
        assert_eq!(builder.user.as_ref().unwrap().1, "se@cret");
        assert!(!format!("{builder:?}").contains("cret"));
    }

    #[tokio::test]
    async fn an_endpoint_with_a_password_is_refused_and_not_shown() {
        for endpoint in ["https://u:sesame@h:2379", "u:sesame@127.0.0.1:2379", "u:se@same@h"] {
            let builder = EtcdBuilder::new(["h1:2379", endpoint]).plaintext(true);
            let shown = format!("{builder:?}");
            let error = builder.build().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            let told = format!("{shown} {error} {error:?}");
            assert!(!told.contains("sesame") && !told.contains("se@"), "{told}");
            assert!(shown.contains("h1:2379"), "{shown}");
        }
    }

    /// Refused before anything is sent: no such host is there.
    #[tokio::test]
    async fn a_password_leaves_the_machine_encrypted_or_by_an_explicit_word() {
        for url in ["h.invalid", "127.0.0.1,h.invalid", "h.invalid?plaintext=off"] {
            let error = connect(&format!("etcd://u:sesame@{url}")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{url}: {error}");
            assert!(error.to_string().contains("plaintext=on in the URL"), "{error}");
            assert!(!format!("{error} {error:?}").contains("sesame"), "{error:?}");
        }
        for (url, security) in [
            ("etcd://h", ConnectionSecurity::Plain),
            ("etcd://u:sesame@h?plaintext=on", ConnectionSecurity::Plain),
            ("etcd://u:sesame@h?ca=/dev/null", ConnectionSecurity::Verified),
            ("etcd://u:sesame@127.0.0.1:1,[::1]:2,localhost", ConnectionSecurity::Local),
        ] {
            assert_eq!(parse(url).unwrap().security(), security, "{url}");
        }
    }

    #[test]
    fn other_urls_are_refused_without_their_password() {
        for url in [
            "http://h1",
            "etcd://",
            "etcd://u:sesame@",
            "etcd://u:sesame@h1,,h2",
            "etcd://u:sesame@h1/path",
            "etcd://u:sesame@h1?colour=red",
            "etcd://u:sesame@h1?timeout=soon",
            "etcd://u:sesame@h1?spare_leases=many",
            "etcd://u:sesame@h1:port",
            "etcd://u:sesame@h1?prefix=a&prefix=sesame",
            "etcd://u:?sesame@h1",
            "etcd://h1?sesame",
            "etcd://h1?sesame=1&timeout=1s",
            "etcd://h1?password=sesame",
            "etcd://u:12?timeout=sesame@h1",
            "etcd://u:12?spare_leases=sesame@h1",
        ] {
            let error = parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("sesame"), "{error}");
        }
        let error = parse("etcd://u:12?ca=sesame@h1").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("sesame"), "{error}");
    }
}
