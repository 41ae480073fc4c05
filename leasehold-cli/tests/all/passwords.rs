//! Fake servers that refuse TLS and ask for the password in clear text.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::locks::{Store, failure};

const PASSWORD: &str = "sesame";
/// Reaches the loopback interface, and is no name for it.
const NOT_LOOPBACK: &str = "0.0.0.0";
/// By which a client of PostgreSQL asks for TLS.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// What a server says first, and what to each message.
#[derive(Clone, Copy)]
struct Fake {
    greeting: &'static [u8],
    answer: fn(&[u8]) -> &'static [u8],
}

const POSTGRES: Fake = Fake {
    greeting: b"",
    // No TLS; then: give me the password in clear text.
    answer: |asked| if asked == SSL_REQUEST { b"N" } else { b"R\0\0\0\x08\0\0\0\x03" },
};

const MYSQL: Fake = Fake {
    // Version 10, connection 1, 8 and 12 bytes of a challenge, without CLIENT_SSL, and the plugin
    // for clear text.
    greeting: b"\x5a\0\0\0\x0a8.0.36\0\x01\0\0\0abcdefgh\0\x00\x82\x21\x02\0\x08\0\x15\
        \0\0\0\0\0\0\0\0\0\0abcdefghijkl\0mysql_clear_password\0\0\0\0\0\0\0\0\0\0",
    // Change to that plugin.
    answer: |_| b"\x16\0\0\x02\xfemysql_clear_password\0",
};

const REDIS: Fake = Fake { greeting: b"", answer: |_| b"-NOAUTH Authentication required.\r\n" };

const ETCD: Fake = Fake { greeting: b"", answer: |_| b"HTTP/1.1 200 OK\r\n\r\n" };

/// It says nothing before the whole login has come.
const ZOOKEEPER: Fake = Fake { greeting: b"", answer: |_| b"" };

/// All that clients have sent to a server, and how many of them came.
type Heard = Arc<Mutex<(usize, Vec<u8>)>>;

fn listen(fake: Fake) -> (u16, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, heard) = (listener.local_addr().unwrap().port(), Heard::default());
    let told = Arc::clone(&heard);
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            told.lock().unwrap().0 += 1;
            let told = Arc::clone(&told);
            thread::spawn(move || serve(client, fake, &told));
        }
    });
    (port, heard)
}

fn serve(mut client: TcpStream, fake: Fake, heard: &Heard) {
    let _ = client.write_all(fake.greeting);
    let mut message = [0; 4096];
    while let Ok(length @ 1..) = client.read(&mut message) {
        let mut all = heard.lock().unwrap();
        all.1.extend(&message[..length]);
        if has_password(&all.1) {
            return;
        }
        drop(all);
        let _ = client.write_all((fake.answer)(&message[..length]));
    }
}

/// Whether the password arrives at a fake server, and how many clients come.
fn arrives(fake: Fake, url: &str) -> (bool, usize) {
    let (port, heard) = listen(fake);
    let store = Store::new();
    let url = url.replace("PORT", &port.to_string());
    let output = store.leasehold().env("LEASEHOLD_STORE", &url).arg("list").output().unwrap();
    let (_, line) = failure(&output);
    assert!(!line.contains(PASSWORD), "{line}");
    let (clients, bytes) = &*heard.lock().unwrap();
    (has_password(bytes), *clients)
}

fn has_password(bytes: &[u8]) -> bool {
    bytes.windows(PASSWORD.len()).any(|part| part == PASSWORD.as_bytes())
}

#[test]
fn a_password_does_not_reach_a_server_that_takes_no_tls() {
    let database = "/a?timeout=20s";
    let [require, verify] = ["&sslmode=require", "&sslmode=verify-full"];
    let [required, identity] = ["&ssl-mode=required", "&ssl-mode=verify_identity"];
    let of_postgres = [("postgres", require), ("postgres", verify)];
    let of_mysql = [("mysql", required), ("mysql", identity)];
    let all = [
        (POSTGRES, "postgres", database, "&sslmode=disable", &of_postgres[..]),
        (MYSQL, "mysql", database, "", &of_mysql),
        (REDIS, "redis", "?timeout=20s", "", &[("rediss", "")]),
        // Their TLS needs a file of an authority: that is tried in their own crates.
        (ETCD, "etcd", "?timeout=20s", "", &[]),
        (ZOOKEEPER, "zookeeper", "?timeout=20s", "", &[]),
    ];
    for (fake, scheme, rest, plain, demanded) in all {
        let at = |scheme: &str, host: &str| format!("{scheme}://app:{PASSWORD}@{host}:PORT{rest}");
        // Without an option of the operator, the client does not even connect.
        let url = at(scheme, NOT_LOOPBACK);
        assert_eq!(arrives(fake, &url), (false, 0), "{url}");
        // If TLS is required, the client only asks the server for it.
        for (scheme, mode) in demanded {
            let url = at(scheme, NOT_LOOPBACK) + mode;
            let (arrived, clients) = arrives(fake, &url);
            assert!(!arrived && clients > 0, "{url}: {clients} clients");
        }
        // It would arrive otherwise. (MySQL's driver does not know the plugin, etcd's waits for an
        // answer first.)
        if ["postgres", "redis", "zookeeper"].contains(&scheme) {
            let url = at(scheme, NOT_LOOPBACK) + plain + "&plaintext=on";
            let (arrived, clients) = arrives(fake, &url);
            assert!(arrived && clients > 0, "{url}: the trap catches nothing");
        }
    }
}
