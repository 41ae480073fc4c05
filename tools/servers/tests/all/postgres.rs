//! The kit's PostgreSQL.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use servers::{
    ClientCertificates, Data, Pgbouncer, Postgres, PostgresOptions, Server as _, programs,
    wait::until,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn two_at_once_are_two_servers() {
    let start = Instant::now();
    let (one, other) = tokio::join!(
        Postgres::start(PostgresOptions::new()),
        Postgres::start(PostgresOptions::new())
    );
    println!("two PostgreSQL up in {:?}", start.elapsed());
    let (one, other) = (one.unwrap(), other.unwrap());
    one.sql("CREATE TABLE t ()").await.unwrap();
    other.sql("CREATE TABLE t ()").await.unwrap();
    assert_eq!(one.sql("SELECT 1, NULL, 'x' UNION SELECT 2, 3, 'y'").await.unwrap(), "1||x\n2|3|y");
    one.sql("no sql").await.unwrap_err();
}

#[tokio::test]
async fn pause_stops_the_workers_too() {
    let postgres = Postgres::start(PostgresOptions::new()).await.unwrap();
    // A session that exists already has a process of its own.
    let mut psql = Command::new(programs::find_postgres("psql").unwrap())
        .args(["-XAtq", "-h", "127.0.0.1", "-U", "postgres", "-p"])
        .arg(postgres.address().port().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(psql.stdout.take().unwrap()).lines();
    let (tell, mut answers) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tell.send(line)));
    let mut questions = psql.stdin.take().unwrap();

    writeln!(questions, "SELECT 1;").unwrap();
    assert_eq!(answers.recv().await.unwrap(), "1");
    postgres.pause().unwrap();
    writeln!(questions, "SELECT 2;").unwrap();
    let paused = tokio::time::timeout(Duration::from_millis(100), answers.recv()).await;
    assert!(paused.is_err(), "answered while paused: {paused:?}");
    postgres.resume().unwrap();
    assert_eq!(answers.recv().await.unwrap(), "2");
    drop(questions);
    assert!(psql.wait().unwrap().success());
}

#[tokio::test]
async fn restarts_with_and_without_data() {
    let mut postgres = Postgres::start(PostgresOptions::new()).await.unwrap();
    let tables = "CREATE TABLE logged (x int); CREATE UNLOGGED TABLE unlogged (x int); \
                  INSERT INTO logged VALUES (1); INSERT INTO unlogged VALUES (1)";
    postgres.sql(tables).await.unwrap();
    let count = "SELECT (SELECT count(*) FROM logged), (SELECT count(*) FROM unlogged)";

    postgres.restart_cleanly().await.unwrap();
    assert_eq!(postgres.sql(count).await.unwrap(), "1|1");

    let tree = postgres.process().tree().unwrap();
    postgres.kill().unwrap();
    assert!(!tree.iter().any(|pid| servers::is_alive(*pid)));
    let start = Instant::now();
    postgres.restart(Data::Keep).await.unwrap();
    println!("PostgreSQL restarted in {:?}", start.elapsed());
    assert_eq!(postgres.sql(count).await.unwrap(), "1|0");

    postgres.restart(Data::Lose).await.unwrap();
    postgres.sql(count).await.unwrap_err();
}

#[tokio::test]
async fn a_killed_backend_resets_all_sessions_under_the_same_postmaster() {
    let postgres = Postgres::start(PostgresOptions::new()).await.unwrap();
    postgres.sql("CREATE UNLOGGED TABLE u (x int); INSERT INTO u VALUES (1)").await.unwrap();
    let started = "SELECT pg_postmaster_start_time()";
    let before = postgres.sql(started).await.unwrap();
    let session = postgres.sql("SELECT pg_sleep(60)");
    let find = async {
        let find = "SELECT pid FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'";
        until("the session", SOON, || async {
            Ok(Some(postgres.sql(find).await?).filter(|pid| !pid.is_empty()))
        })
        .await
    };
    tokio::pin!(session);
    let pid = tokio::select! {
        pid = find => pid.unwrap().parse().unwrap(),
        ended = &mut session => panic!("{ended:?}"),
    };
    postgres.kill_backend(std::process::id()).await.unwrap_err();
    postgres.kill_backend(postgres.process().pid().unwrap()).await.unwrap_err();
    postgres.kill_backend(pid).await.unwrap();
    session.await.unwrap_err();
    assert_eq!(postgres.sql(started).await.unwrap(), before);
    assert_eq!(postgres.sql("SELECT count(*) FROM u").await.unwrap(), "0");
}

#[tokio::test]
async fn password_is_asked() {
    let postgres = Postgres::start(PostgresOptions::new().password("sesame ü")).await.unwrap();
    assert_eq!(postgres.sql("SELECT 1").await.unwrap(), "1");
    let mut psql = Command::new(programs::find_postgres("psql").unwrap());
    let port = postgres.address().port().to_string();
    psql.args(["-w", "-h", "127.0.0.1", "-U", "postgres", "-c", "SELECT 1", "-p", &port]);
    let error = programs::run(psql).await.unwrap_err();
    assert!(error.to_string().contains("no password supplied"), "{error}");
}

#[tokio::test]
async fn tls_with_client_certificates() {
    let options = PostgresOptions::new().tls(ClientCertificates::Required);
    let postgres = Postgres::start(options).await.unwrap();
    let files = postgres.certificates().unwrap();
    let port = postgres.address().port();
    let ask = |certificate: String| {
        let mut psql = Command::new(programs::find_postgres("psql").unwrap());
        psql.args(["-XAtc", "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"]).arg(
            format!(
                "host=localhost hostaddr=127.0.0.1 port={port} user=postgres sslmode=verify-full \
             sslrootcert={} {certificate}",
                files.ca.display(),
            ),
        );
        programs::run(psql)
    };
    let (cert, key) = (files.client_cert.display(), files.client_key.display());
    assert_eq!(ask(format!("sslcert={cert} sslkey={key}")).await.unwrap().trim(), "t");
    ask("sslcert=/dev/null".to_owned()).await.unwrap_err();
}

/// The readiness probe is not fooled by a port that merely accepts.
#[tokio::test]
async fn answers_the_raw_protocol() {
    let postgres = Postgres::start(PostgresOptions::new()).await.unwrap();
    let mut stream = TcpStream::connect(postgres.address()).await.unwrap();
    stream.write_all(&[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]).await.unwrap(); // SSLRequest
    assert_eq!(stream.read_u8().await.unwrap(), b'N');
}

#[tokio::test]
async fn a_replica_has_the_data_and_takes_writes_once_promoted() {
    let mut primary = Postgres::start(PostgresOptions::new()).await.unwrap();
    primary.sql("CREATE TABLE t AS SELECT 1 AS a").await.unwrap();
    let start = Instant::now();
    let replica = primary.replica().await.unwrap();
    println!("replica fed in {:?}", start.elapsed());
    primary.sql("INSERT INTO t VALUES (2)").await.unwrap();
    until("the row to arrive", SOON, || async {
        Ok((replica.sql("SELECT count(*) FROM t").await? == "2").then_some(()))
    })
    .await
    .unwrap();
    let refused = replica.sql("INSERT INTO t VALUES (3)").await.unwrap_err().to_string();
    assert!(refused.contains("read-only"), "{refused}");

    primary.kill().unwrap();
    replica.promote().await.unwrap();
    replica.sql("INSERT INTO t VALUES (3)").await.unwrap();
    assert_eq!(replica.sql("SELECT count(*) FROM t").await.unwrap(), "3");
}

#[tokio::test]
async fn pgbouncer_gives_each_transaction_any_session() {
    let postgres = Postgres::start(PostgresOptions::new()).await.unwrap();
    let pgbouncer = Pgbouncer::start(&postgres, 1).await.unwrap();
    let ask = |sql: &'static str| {
        let mut psql = Command::new(programs::find_postgres("psql").unwrap());
        psql.args(["-XAtq", "-h", "127.0.0.1", "-U", "postgres", "-d", "postgres", "-p"])
            .arg(pgbouncer.address().port().to_string())
            .env("PGSSLMODE", "disable")
            .args(["-c", sql]);
        async { programs::run(psql).await.unwrap() }
    };
    // Two clients, one session: the second one's is the first one's.
    let session = "SELECT pg_backend_pid()";
    assert_eq!(ask(session).await, ask(session).await);
}
