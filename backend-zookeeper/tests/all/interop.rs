//! The real clients of other libraries and ours on one path. They come from registries, so only
//! `scripts/soak` runs these tests.

use std::{path::Path, time::Duration};

use lock_core::LockClient;
use tokio::process::Command;

use crate::support::{WAIT, connect, single};

/// How often each side adds 1.
const TIMES: u64 = 50;

/// A client: its files, the shell commands that install it into the current folder, and the one
/// that starts it.
struct Library {
    files: &'static [(&'static str, &'static str)],
    install: &'static str,
    start: &'static str,
}

const KAZOO: Library = Library {
    files: &[("client.py", include_str!("../programs/kazoo_client.py"))],
    install: "python3 -m venv venv && venv/bin/pip -q install kazoo==2.10.0",
    start: "exec venv/bin/python client.py \"$@\"",
};

const GO_ZOOKEEPER: Library = Library {
    files: &[("main.go", include_str!("../programs/go_client.go"))],
    install: "go mod init client && go get github.com/go-zookeeper/zk@v1.0.4 && go build -o client .",
    start: "exec ./client \"$@\"",
};

const CURATOR: Library = Library {
    files: &[
        ("Client.java", include_str!("../programs/curator/Client.java")),
        ("pom.xml", include_str!("../programs/curator/pom.xml")),
    ],
    install: "mvn -q -B dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=lib \
              && javac -cp 'lib/*' Client.java",
    start: "exec java -cp 'lib/*:.' Client \"$@\"",
};

fn shell(folder: &Path, command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", command, "sh"]).current_dir(folder).kill_on_drop(true);
    shell
}

/// Both sides read a number and write it back, increased by 1. If both are inside at once, an
/// addition is lost.
async fn count_together(library: &Library) {
    let folder = tempfile::tempdir().unwrap();
    for (file, text) in library.files {
        std::fs::write(folder.path().join(file), text).unwrap();
    }
    assert!(shell(folder.path(), library.install).status().await.unwrap().success());
    let (zookeeper, file) = (single().await, folder.path().join("number"));
    let address = zookeeper.endpoints()[0].to_string();
    std::fs::write(&file, "0").unwrap();
    let ours = LockClient::new(connect(&zookeeper.endpoints(), "10s").await);
    let add = async || {
        let guard = ours.lock("job").wait(WAIT * 3).acquire().await.unwrap();
        let before: u64 = std::fs::read_to_string(&file).unwrap().parse().unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        std::fs::write(&file, (before + 1).to_string()).unwrap();
        guard.release().await.unwrap();
        before
    };
    // The directory is there, so that theirs is no container.
    add().await;
    let mut theirs = shell(folder.path(), library.start);
    theirs.args([&address, "/leasehold/job", file.to_str().unwrap(), &TIMES.to_string()]);
    let mut theirs = theirs.spawn().unwrap();
    // Ours go on until theirs has begun, and then as often as theirs.
    let mut alone = 1;
    while add().await == alone {
        alone += 1;
    }
    for _ in 0..TIMES {
        add().await;
    }
    assert!(theirs.wait().await.unwrap().success());
    let sum: u64 = std::fs::read_to_string(&file).unwrap().parse().unwrap();
    assert_eq!(sum, alone + 1 + 2 * TIMES, "an addition was lost");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs python3 and a registry; scripts/soak runs it"]
async fn kazoo_and_ours_count_together() {
    count_together(&KAZOO).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs go and a registry; scripts/soak runs it"]
async fn go_zookeeper_and_ours_count_together() {
    count_together(&GO_ZOOKEEPER).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs javac, mvn and a registry; scripts/soak runs it"]
async fn curator_and_ours_count_together() {
    count_together(&CURATOR).await;
}
