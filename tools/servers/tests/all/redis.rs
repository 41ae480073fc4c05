//! The kit's Redis.

use std::time::{Duration, Instant};

use servers::{ClientCertificates, Data, Redis, RedisOptions, Server as _, programs};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UnixStream},
};

#[tokio::test]
async fn five_at_once_are_five_servers() {
    let start = Instant::now();
    let five = Redis::start_many(5, RedisOptions::new()).await.unwrap();
    println!("five Redis up in {:?}", start.elapsed());
    let mut ids = Vec::new();
    for redis in &five {
        assert_eq!(redis.cli(&["PING"]).await.unwrap(), "PONG");
        assert_eq!(
            redis.info("process_id").await.unwrap(),
            redis.process().pid().unwrap().to_string()
        );
        ids.push(redis.info("run_id").await.unwrap());
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 5);
}

#[tokio::test]
async fn a_paused_server_answers_when_it_goes_on() {
    let redis = Redis::start(RedisOptions::new()).await.unwrap();
    let mut client = TcpStream::connect(redis.address()).await.unwrap();
    redis.pause().unwrap();
    client.write_all(b"PING\r\n").await.unwrap();
    let mut answer = [0; 7];
    let read = tokio::time::timeout(Duration::from_millis(100), client.read(&mut answer)).await;
    assert!(read.is_err(), "answered while paused: {read:?}");
    redis.resume().unwrap();
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
}

#[tokio::test]
async fn restarts_with_and_without_data() {
    let mut redis = Redis::start(RedisOptions::new().aof()).await.unwrap();
    let address = redis.address();
    let first_run = redis.info("run_id").await.unwrap();
    redis.cli(&["SET", "k", "v"]).await.unwrap();
    let pid = redis.process().pid().unwrap();
    redis.kill().unwrap();
    assert!(!servers::is_alive(pid));
    TcpStream::connect(address).await.unwrap_err();

    let start = Instant::now();
    redis.restart(Data::Keep).await.unwrap();
    println!("Redis restarted in {:?}", start.elapsed());
    assert_eq!(redis.address(), address);
    assert_eq!(redis.cli(&["GET", "k"]).await.unwrap(), "v");
    assert_ne!(redis.info("run_id").await.unwrap(), first_run);

    redis.restart(Data::Lose).await.unwrap();
    assert_eq!(redis.cli(&["GET", "k"]).await.unwrap(), "");
}

#[tokio::test]
async fn without_an_aof_a_restart_is_empty() {
    let mut redis = Redis::start(RedisOptions::new()).await.unwrap();
    redis.cli(&["SET", "k", "v"]).await.unwrap();
    redis.restart(Data::Keep).await.unwrap();
    assert_eq!(redis.cli(&["GET", "k"]).await.unwrap(), "");
}

#[tokio::test]
async fn password_acl_and_unix_socket() {
    let options =
        RedisOptions::new().password("sesame").line("user app on >open ~app:* +@all").unix_socket();
    let redis = Redis::start(options).await.unwrap();
    assert_eq!(redis.cli(&["PING"]).await.unwrap(), "PONG");
    assert_eq!(redis.cli(&["ACL", "WHOAMI"]).await.unwrap(), "default");

    let mut client = UnixStream::connect(redis.socket().unwrap()).await.unwrap();
    client.write_all(b"PING\r\nAUTH app open\r\nSET other v\r\n").await.unwrap();
    let mut answer = String::new();
    while answer.lines().count() < 3 {
        let mut bytes = [0; 256];
        let read = client.read(&mut bytes).await.unwrap();
        assert!(read > 0, "{answer}");
        answer.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
    }
    let lines: Vec<_> = answer.lines().collect();
    assert!(lines[0].starts_with("-NOAUTH"), "{answer}");
    assert_eq!(lines[1], "+OK");
    assert!(lines[2].starts_with("-NOPERM"), "{answer}");
}

#[tokio::test]
async fn tls_with_client_certificates() {
    let options = RedisOptions::new().tls(ClientCertificates::Required);
    let redis = Redis::start(options).await.unwrap();
    let files = redis.certificates().unwrap();
    let port = redis.tls_address().unwrap().port().to_string();
    let ping = |with_certificate: bool| {
        let mut cli =
            std::process::Command::new(programs::find("redis-cli", "redis-tools").unwrap());
        cli.args(["-h", "127.0.0.1", "-p", &port, "--tls", "--cacert"]).arg(&files.ca);
        if with_certificate {
            cli.arg("--cert").arg(&files.client_cert).arg("--key").arg(&files.client_key);
        }
        programs::run({
            cli.arg("PING");
            cli
        })
    };
    assert_eq!(ping(true).await.unwrap().trim(), "PONG");
    ping(false).await.unwrap_err();
}
