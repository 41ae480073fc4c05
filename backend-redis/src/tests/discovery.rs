//! How the client finds its server. The sentinels and nodes are made up.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use lock_core::ErrorKind;
use redis::RedisError;
use servers::{Redis, RedisOptions, Server as _};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::{
    RedisBuilder,
    connection::{
        Connection,
        subscription::{Listening, PushPath},
    },
    discovery::{Discovery, redirect::Redirect},
    keys::{
        Bucket, Keys,
        slots::{slot_of, slot_of_key},
    },
    settings::Address,
    store::Store,
    waiting::Pushes,
};

pub(crate) const HOST: &str = "127.0.0.1";

pub(crate) fn at(port: u16) -> Address {
    Address::Tcp(HOST.to_owned(), port)
}

/// Answers each command of a client.
async fn serve(client: TcpStream, answer: impl Fn(&[String]) -> String) -> Option<()> {
    let mut client = BufReader::new(client);
    loop {
        let mut words = Vec::new();
        let mut line = String::new();
        client.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
        for _ in 0..line.trim().trim_start_matches('*').parse::<usize>().ok()? {
            // The length of each word stands before it, and no word has an end of line.
            for _ in 0..2 {
                line.clear();
                client.read_line(&mut line).await.ok()?;
            }
            words.push(line.trim().to_owned());
        }
        client.get_mut().write_all(answer(&words).as_bytes()).await.ok()?;
    }
}

/// A server that gives every client the same answer. Returns its port.
pub(crate) async fn server(
    answer: impl Fn(&[String]) -> String + Clone + Send + Sync + 'static,
) -> u16 {
    let listener = TcpListener::bind((HOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, answer.clone()));
        }
    });
    port
}

/// A sentinel that names the server at this port as the master, with this configuration number.
pub(crate) async fn sentinel(master: u16, epoch: u8) -> u16 {
    server(move |words| match words.get(1).map(String::as_str) {
        Some("GET-MASTER-ADDR-BY-NAME") => {
            let master = master.to_string();
            format!("*2\r\n$9\r\n{HOST}\r\n${}\r\n{master}\r\n", master.len())
        }
        Some("MASTER") => format!("*2\r\n$12\r\nconfig-epoch\r\n$1\r\n{epoch}\r\n"),
        _ => "+OK\r\n".to_owned(),
    })
    .await
}

/// A node that names the node at this port as the master of all slots.
async fn node(master: u16) -> u16 {
    server(move |words| match words.get(1).map(String::as_str) {
        Some("SLOTS") => {
            format!("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n{HOST}\r\n:{master}\r\n$1\r\nx\r\n")
        }
        _ => "+OK\r\n".to_owned(),
    })
    .await
}

/// Two of three sentinels still name an old master. One of them is asked first later on.
async fn watched() -> Discovery {
    let mut sentinels = Vec::new();
    for (master, epoch) in [(1001, 1), (1002, 2), (1001, 1)] {
        sentinels.push((HOST, sentinel(master, epoch).await));
    }
    Discovery::new(&RedisBuilder::sentinel("mymaster", sentinels).settings)
}

#[tokio::test]
async fn the_newest_configuration_wins() {
    let found = watched().await.locate(Bucket::FIRST).await.unwrap();
    assert_eq!(found, at(1002));
}

#[tokio::test]
async fn an_isolated_sentinel_moves_no_client() {
    let discovery = watched().await;
    discovery.locate(Bucket::FIRST).await.unwrap();
    assert!(!discovery.has_left(&at(1002)).await, "the first sentinel was believed");
    assert!(discovery.has_left(&at(1001)).await);
}

#[tokio::test]
async fn a_moved_slot_is_found_on_its_new_node() {
    let discovery = Discovery::new(&RedisBuilder::cluster([(HOST, node(1001).await)]).settings);
    assert_eq!(discovery.locate_slot(5).await.unwrap(), at(1001));
    discovery.moved(5, &at(1002));
    assert_eq!(discovery.locate_slot(5).await.unwrap(), at(1002));
    assert_eq!(discovery.locate_slot(6).await.unwrap(), at(1001));
}

#[tokio::test]
async fn the_slots_of_an_unusable_node_are_located_again() {
    let discovery = Discovery::new(&RedisBuilder::cluster([(HOST, node(1001).await)]).settings);
    discovery.moved(5, &at(1002));
    assert!(discovery.doubt(&at(1002)));
    assert_eq!(discovery.locate_slot(5).await.unwrap(), at(1001));
}

/// Sixty callers ask at once a server that accepts connections and never answers. If they waited
/// one after the other, this would take 60 time limits; on a busy machine one takes longer, too.
async fn sixty_wait<F: Future<Output = bool>>(ask: impl Fn(usize) -> F) {
    let began = Instant::now();
    let answers = join_all((0..60).map(ask)).await;
    assert!(answers.into_iter().all(|failed| failed), "something answered");
    assert!(began.elapsed() < LIMIT * 30, "{:?}", began.elapsed());
}

pub(crate) const LIMIT: Duration = Duration::from_secs(2);

#[tokio::test]
async fn all_buckets_of_a_hanging_node_wait_together() {
    let silent = server(|_| String::new()).await;
    let settings = RedisBuilder::cluster([(HOST, silent)]).timeout(LIMIT).settings;
    let keys = Keys::in_topology("x", &settings.topology);
    let pushes = Arc::new(Pushes::new(&keys, 1, false));
    let store = &Store::new(settings, keys, pushes);
    let to = &at(silent);
    sixty_wait(async |bucket| store.connection_to(to, Bucket(bucket as u16)).await.is_err()).await;
}

#[tokio::test]
async fn all_slots_wait_together_for_nodes_that_hang() {
    let silent = server(|_| String::new()).await;
    let settings = RedisBuilder::cluster([(HOST, silent)]).timeout(LIMIT).settings;
    let discovery = &Discovery::new(&settings);
    sixty_wait(async |slot| discovery.locate_slot(slot as u16).await.is_err()).await;
}

#[tokio::test]
async fn a_server_without_cluster_mode_in_a_nodes_place_is_refused() {
    let other = Redis::start(RedisOptions::new()).await.unwrap();
    let seed = node(other.address().port()).await;
    let error = RedisBuilder::cluster([(HOST, seed)]).build().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("no part of a cluster"), "{error:?}");
}

/// A master that is busy at first, and so does not say its limits.
#[tokio::test]
async fn a_busy_server_is_not_taken_for_one_without_limits() {
    let asked = Arc::new(AtomicU32::new(0));
    let master = server(move |words| match words[0].as_str() {
        "INFO" => {
            let info = "redis_version:7.2.4\r\nserver_time_usec:1\r\nrun_id:ab\r\nmaster_replid:cd\r\n\
                        role:master\r\nmin_slaves_good_slaves:1\r\n";
            format!("${}\r\n{info}\r\n", info.len())
        }
        "CONFIG" if asked.fetch_add(1, Ordering::SeqCst) == 0 => {
            "-LOADING Redis is loading the dataset in memory\r\n".to_owned()
        }
        "HELLO" => "%1\r\n$5\r\nproto\r\n:3\r\n".to_owned(),
        "EVAL" => "$2\r\nab\r\n".to_owned(),
        "CONFIG" => "*2\r\n$20\r\nmin-replicas-max-lag\r\n$1\r\n7\r\n".to_owned(),
        _ => "+OK\r\n".to_owned(),
    })
    .await;
    let settings = RedisBuilder::tcp(HOST, master).settings;
    let open = async || {
        let pushes = Arc::new(Pushes::new(&Keys::new("x"), 1, false));
        Connection::open(&settings, &at(master), pushes).await
    };
    let error = open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    let limits = open().await.unwrap().known().limits;
    assert_eq!(limits.max_lag, Some(Duration::from_secs(7)));
}

/// A node that ends each subscription right after confirming it.
#[tokio::test]
async fn a_subscription_that_ended_at_once_is_made_again() {
    let made = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&made);
    let node = server(move |words| match words[0].as_str() {
        "HELLO" => "%1\r\n$5\r\nproto\r\n:3\r\n".to_owned(),
        "SSUBSCRIBE" => {
            counted.fetch_add(1, Ordering::SeqCst);
            let push = |word: &str, left: u8| {
                let (length, channel) = (word.len(), &words[1]);
                format!(
                    ">3\r\n${length}\r\n{word}\r\n${}\r\n{channel}\r\n:{left}\r\n",
                    channel.len()
                )
            };
            push("ssubscribe", 1) + &push("sunsubscribe", 0)
        }
        _ => "+OK\r\n".to_owned(),
    })
    .await;
    let settings = RedisBuilder::cluster([(HOST, node)]).settings;
    let pushes = Arc::new(Pushes::new(&Keys::in_topology("x", &settings.topology), 1, false));
    let listening = Listening::new(
        PushPath::Sharded(Box::new(settings), at(node)),
        Arc::default(),
        pushes,
        LIMIT,
    );
    for expected in 1..=2 {
        listening.subscribe(Bucket::FIRST).await.unwrap();
        assert_eq!(made.load(Ordering::SeqCst), expected);
    }
}

fn refusal(text: &str) -> RedisError {
    let value = redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap();
    value.extract_error().unwrap_err()
}

#[test]
fn a_refusal_names_the_next_server() {
    let parse = |text: &str| Redirect::of(&refusal(text), &at(1001));
    assert_eq!(parse("MOVED 5 127.0.0.1:1002"), Some(Redirect::Moved(at(1002))));
    // Without a host it is the host of the node that answers.
    assert_eq!(parse("MOVED 5 :1002"), Some(Redirect::Moved(at(1002))));
    // A node that should announce a host name may be on any host.
    assert_eq!(parse("MOVED 5 ?:1002"), Some(Redirect::Unnamed));
    assert_eq!(parse("ASK 5 127.0.0.1:1002"), Some(Redirect::Ask(at(1002))));
    assert_eq!(parse("TRYAGAIN of several keys"), Some(Redirect::Again));
    assert_eq!(parse("READONLY of a replica"), Some(Redirect::Demoted));
    assert_eq!(parse("CLUSTERDOWN of a node alone"), Some(Redirect::Alone));
    assert_eq!(parse("ERR of something else"), None);
}

#[test]
fn a_key_is_where_its_tag_is() {
    assert_eq!(slot_of_key("leasehold:{foo}:lock:a"), slot_of("foo"));
    assert_eq!(slot_of_key("a{}b"), slot_of("a{}b"));
}
