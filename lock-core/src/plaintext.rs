//! The rule of all backends for sending a password unencrypted.

use std::net::IpAddr;

use crate::{Error, ErrorKind};

/// The URL option that allows an unencrypted password, with the value `on`.
pub const PLAINTEXT: &str = "plaintext";

/// Whether a host is this machine, judged only by its name or address: `localhost`, 127.0.0.0/8 or
/// ::1.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// The error for a password that would leave the machine unencrypted. `tls` names the options that
/// turn TLS on.
#[must_use]
pub fn plaintext_refusal(tls: &str) -> Error {
    let message = format!(
        "the password would go unencrypted to any server that answers for the host; use {tls}, a host that is this \
         machine, or {PLAINTEXT}=on in the URL"
    );
    Error::new(ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_hosts_are_recognized() {
        for host in
            ["localhost", "LocalHost", "127.0.0.1", "127.9.9.9", "::1", "[::1]", "::ffff:127.0.0.1"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "db",
            "localhost.example",
            "10.0.0.1",
            "128.0.0.1",
            "::2",
            "0.0.0.0",
            "[localhost]",
            "127.0.0.1.example",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
