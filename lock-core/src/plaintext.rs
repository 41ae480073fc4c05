//! Whether a password may go over a network unencrypted: the same rule for all stores. For backends.

use std::net::IpAddr;

use crate::{Error, ErrorKind};

/// The option of a store's URL that allows it, with the value `on`.
pub const PLAINTEXT: &str = "plaintext";

/// Whether a host is this machine, by its name or address alone: `localhost`, 127.0.0.0/8 or ::1.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// The refusal of a password that would leave the machine unencrypted; `tls` names the options that turn TLS on.
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
    fn what_leaves_the_machine_is_known_by_its_name() {
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
