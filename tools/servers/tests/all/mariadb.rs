//! The kit's MariaDB.

use std::time::{Duration, Instant};

use servers::{ClientCertificates, Data, Mariadb, MariadbOptions, Server as _, is_alive};

#[tokio::test]
async fn two_at_once_are_two_servers() {
    let start = Instant::now();
    let (one, other) =
        tokio::join!(Mariadb::start(MariadbOptions::new()), Mariadb::start(MariadbOptions::new()));
    println!("two MariaDB up in {:?}", start.elapsed());
    let (one, other) = (one.unwrap(), other.unwrap());
    for server in [&one, &other] {
        let port = server.address().port().to_string();
        assert_eq!(server.sql("SELECT @@port, 'x'").await.unwrap(), format!("{port}\tx"));
    }
    assert_ne!(one.address(), other.address());
    one.sql("no sql").await.unwrap_err();
}

#[tokio::test]
async fn pause_and_resume() {
    let mariadb = Mariadb::start(MariadbOptions::new()).await.unwrap();
    mariadb.pause().unwrap();
    let sql = mariadb.sql("SELECT 1");
    tokio::pin!(sql);
    let paused = tokio::time::timeout(Duration::from_millis(200), &mut sql).await;
    assert!(paused.is_err(), "answered while paused: {paused:?}");
    mariadb.resume().unwrap();
    assert_eq!(sql.await.unwrap(), "1");
}

#[tokio::test]
async fn restarts_with_and_without_data() {
    let mut mariadb = Mariadb::start(MariadbOptions::new()).await.unwrap();
    mariadb.sql("CREATE TABLE t (x int); INSERT INTO t VALUES (1)").await.unwrap();
    let pid = mariadb.process().pid().unwrap();
    mariadb.kill().unwrap();
    assert!(!is_alive(pid));
    let start = Instant::now();
    mariadb.restart(Data::Keep).await.unwrap();
    println!("MariaDB restarted in {:?}", start.elapsed());
    assert_eq!(mariadb.sql("SELECT x FROM t").await.unwrap(), "1");
    mariadb.restart_cleanly().await.unwrap();
    assert_eq!(mariadb.sql("SELECT x FROM t").await.unwrap(), "1");
    mariadb.restart(Data::Lose).await.unwrap();
    mariadb.sql("SELECT x FROM t").await.unwrap_err();
}

#[tokio::test]
async fn password_flag_and_tls() {
    let options = MariadbOptions::new()
        .password(r"it's \ open")
        .flag("--innodb-flush-log-at-trx-commit=2")
        .tls(ClientCertificates::Required);
    let mariadb = Mariadb::start(options).await.unwrap();
    let flush = "SELECT @@innodb_flush_log_at_trx_commit";
    assert_eq!(mariadb.sql(flush).await.unwrap(), "2");
    let cipher = mariadb.sql("SHOW SESSION STATUS LIKE 'Ssl_cipher'").await.unwrap();
    assert!(cipher.contains("TLS"), "{cipher}");
}
