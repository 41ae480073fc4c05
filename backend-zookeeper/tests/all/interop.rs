//! The real clients of other libraries and ours on one path. `scripts/install-test-servers`
//! installs kazoo. The others come from registries, so only `scripts/soak` runs their tests.

use std::{path::Path, process::Stdio, sync::Arc};

use lock_core::{Backend, Mode, OwnerId};
use servers::ZooKeeper;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};
use zookeeper_client::{Acls, CreateMode};

use crate::support::{WAIT, busy, connect, granted, plain, release, request, single, until};

/// A client: its files, the shell commands that install it into the current folder, and the one
/// that starts it.
struct Library {
    files: &'static [(&'static str, &'static str)],
    install: &'static str,
    start: &'static str,
}

const KAZOO: Library = Library {
    files: &[("client.py", include_str!("../programs/kazoo/client.py"))],
    // It is there after `scripts/install-test-servers`.
    install: "test -d /usr/local/lib/leasehold-test-servers/kazoo",
    start: "PYTHONPATH=/usr/local/lib/leasehold-test-servers/kazoo; export PYTHONPATH; \
            exec /usr/bin/python3 -B client.py \"$@\"",
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

/// A lock of another library on the path of `job`. It is acquired at a line of input, and released
/// at the next one.
struct Theirs {
    _process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    _folder: TempDir,
}

impl Theirs {
    async fn start(library: &Library, zookeeper: &ZooKeeper, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in library.files {
            std::fs::write(folder.path().join(file), text).unwrap();
        }
        let installed = shell(folder.path(), library.install).status().await.unwrap();
        assert!(installed.success(), "it is not installed: {}", library.install);
        let mut program = shell(folder.path(), library.start);
        program.args([&zookeeper.endpoints()[0].to_string(), "/leasehold/job"]).args(arguments);
        let mut process = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { _process: process, input, output, _folder: folder }
    }

    async fn go_on(&mut self) {
        self.input.write_all(b"\n").await.unwrap();
    }

    /// The next line of its output. `None` if it has ended.
    async fn said(&mut self) -> Option<String> {
        timeout(WAIT, self.output.next_line()).await.expect("an answer").unwrap()
    }

    /// It is acquired, and then released.
    async fn gets_the_lock(&mut self) {
        for expected in ["held", "released"] {
            self.go_on().await;
            assert_eq!(self.said().await.as_deref(), Some(expected));
        }
    }
}

async fn server_and_client() -> (ZooKeeper, Arc<dyn Backend>) {
    let zookeeper = single().await;
    let ours = connect(&zookeeper.endpoints(), "20s").await;
    (zookeeper, ours)
}

/// Ours is a writer, and then a reader.
async fn exclude_each_other(zookeeper: &ZooKeeper, ours: &dyn Backend, theirs: &mut Theirs) {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let asked = || request().with_mode(mode);
        let grant = granted(ours, &asked()).await;
        theirs.go_on().await;
        until("theirs watches our entry, so it waits for it", async || {
            let watched = zookeeper.members()[0].ask("wchp").await.unwrap();
            watched.contains("/leasehold/job/")
        })
        .await;
        release(ours, &grant).await;
        assert_eq!(theirs.said().await.as_deref(), Some("held"));
        assert_eq!(busy(ours, &asked()).await.holder.unwrap().owner, OwnerId::FOREIGN);
        theirs.go_on().await;
        assert_eq!(theirs.said().await.as_deref(), Some("released"));
    }
}

/// What is no entry blocks ours.
async fn create_another_node(zookeeper: &ZooKeeper) {
    let client = plain(zookeeper.endpoints()[0]).await;
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.create("/leasehold/job/leader", b"", &options).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoo_and_ours_exclude_each_other_with_our_pattern_only() {
    let (zookeeper, ours) = server_and_client().await;
    let mut theirs = Theirs::start(&KAZOO, &zookeeper, &["-lock-"]).await;
    exclude_each_other(&zookeeper, &*ours, &mut theirs).await;
    granted(&*ours, &request()).await;
    // So a library that ignores our entries is noticed.
    Theirs::start(&KAZOO, &zookeeper, &[]).await.gets_the_lock().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs go and a registry; scripts/soak runs it"]
async fn go_zookeeper_and_ours_exclude_each_other() {
    let (zookeeper, ours) = server_and_client().await;
    let mut theirs = Theirs::start(&GO_ZOOKEEPER, &zookeeper, &[]).await;
    exclude_each_other(&zookeeper, &*ours, &mut theirs).await;
    create_another_node(&zookeeper).await;
    theirs.go_on().await;
    assert_eq!(theirs.said().await, None, "it fails");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs javac, mvn and a registry; scripts/soak runs it"]
async fn curator_and_ours_exclude_each_other() {
    let (zookeeper, ours) = server_and_client().await;
    let mut theirs = Theirs::start(&CURATOR, &zookeeper, &["mutex"]).await;
    exclude_each_other(&zookeeper, &*ours, &mut theirs).await;
    let grant = granted(&*ours, &request()).await;
    Theirs::start(&CURATOR, &zookeeper, &["read-write"]).await.gets_the_lock().await;
    release(&*ours, &grant).await;
    create_another_node(&zookeeper).await;
    // Its name comes after all numbers, so Curator ignores it.
    theirs.gets_the_lock().await;
}
