//! Where the client looks for its server, by sentinels and nodes that are made up.

use redis::RedisError;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::{
    RedisBuilder,
    keys::Bucket,
    redirect::Redirect,
    slots::{slot_of, slot_of_key},
    topology::{Finder, Place},
};

const HOST: &str = "127.0.0.1";

fn at(port: u16) -> Place {
    Place::Tcp(HOST.to_owned(), port)
}

/// Answers each command of a client.
async fn serve(client: TcpStream, answer: impl Fn(&[String]) -> String) -> Option<()> {
    let mut client = BufReader::new(client);
    loop {
        let mut words = Vec::new();
        let mut line = String::new();
        client.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
        for _ in 0..line.trim().trim_start_matches('*').parse::<usize>().ok()? {
            // Its length stands before each word, and none has an end of line in it.
            for _ in 0..2 {
                line.clear();
                client.read_line(&mut line).await.ok()?;
            }
            words.push(line.trim().to_owned());
        }
        client.get_mut().write_all(answer(&words).as_bytes()).await.ok()?;
    }
}

/// A server that says the same to whoever asks; its port.
async fn server(answer: impl Fn(&[String]) -> String + Clone + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind((HOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, answer.clone()));
        }
    });
    port
}

/// A sentinel that takes the server at this port for the master, by this configuration.
async fn sentinel(master: u16, epoch: u8) -> u16 {
    server(move |words| match words.get(1).map(String::as_str) {
        Some("GET-MASTER-ADDR-BY-NAME") => {
            format!("*2\r\n$9\r\n{HOST}\r\n$4\r\n{master:04}\r\n")
        }
        Some("MASTER") => format!("*2\r\n$12\r\nconfig-epoch\r\n$1\r\n{epoch}\r\n"),
        _ => "+OK\r\n".to_owned(),
    })
    .await
}

/// A node that takes the one at this port for the master of all slots.
async fn node(master: u16) -> u16 {
    server(move |words| match words.get(1).map(String::as_str) {
        Some("SLOTS") => {
            format!("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n{HOST}\r\n:{master}\r\n$1\r\nx\r\n")
        }
        _ => "+OK\r\n".to_owned(),
    })
    .await
}

/// Two of three go on naming an old master; the first of them is asked first later on.
async fn watched() -> Finder {
    let mut sentinels = Vec::new();
    for (master, epoch) in [(1001, 1), (1002, 2), (1001, 1)] {
        sentinels.push((HOST, sentinel(master, epoch).await));
    }
    Finder::new(&RedisBuilder::sentinel("mymaster", sentinels).settings)
}

#[tokio::test]
async fn the_newest_configuration_is_believed() {
    let found = watched().await.locate(Bucket::FIRST).await.unwrap();
    assert_eq!(found, at(1002));
}

#[tokio::test]
async fn a_sentinel_that_is_cut_off_moves_nobody() {
    let finder = watched().await;
    finder.locate(Bucket::FIRST).await.unwrap();
    assert!(!finder.has_left(&at(1002)).await, "the first sentinel was believed");
    assert!(finder.has_left(&at(1001)).await);
}

#[tokio::test]
async fn a_slot_that_moved_is_looked_for_where_it_went() {
    let finder = Finder::new(&RedisBuilder::cluster([(HOST, node(1001).await)]).settings);
    assert_eq!(finder.locate_slot(5).await.unwrap(), at(1001));
    finder.moved(5, &at(1002));
    assert_eq!(finder.locate_slot(5).await.unwrap(), at(1002));
    assert_eq!(finder.locate_slot(6).await.unwrap(), at(1001));
}

#[tokio::test]
async fn a_node_that_cannot_be_used_is_looked_for_anew() {
    let finder = Finder::new(&RedisBuilder::cluster([(HOST, node(1001).await)]).settings);
    finder.moved(5, &at(1002));
    assert!(finder.doubt(&at(1002)));
    assert_eq!(finder.locate_slot(5).await.unwrap(), at(1001));
}

fn refusal(text: &str) -> RedisError {
    let value = redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap();
    value.extract_error().unwrap_err()
}

#[test]
fn a_refusal_says_where_to_go() {
    let ways = |text: &str| Redirect::of(&refusal(text), &at(1001));
    assert_eq!(ways("MOVED 5 127.0.0.1:1002"), Some(Redirect::Moved(at(1002))));
    // Without a host it is on the same one.
    assert_eq!(ways("MOVED 5 :1002"), Some(Redirect::Moved(at(1002))));
    assert_eq!(ways("ASK 5 127.0.0.1:1002"), Some(Redirect::Ask(at(1002))));
    assert_eq!(ways("TRYAGAIN of several keys"), Some(Redirect::Again));
    assert_eq!(ways("READONLY of a replica"), Some(Redirect::Demoted));
    assert_eq!(ways("CLUSTERDOWN of a node alone"), Some(Redirect::Alone));
    assert_eq!(ways("ERR of something else"), None);
}

#[test]
fn a_key_is_where_its_tag_is() {
    assert_eq!(slot_of_key("leasehold:{foo}:lock:a"), slot_of("foo"));
    assert_eq!(slot_of_key("a{}b"), slot_of("a{}b"));
}
