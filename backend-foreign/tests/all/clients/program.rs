//! A client of another library, as a separate process.
//!
//! It reads commands from stdin, and answers each with a line. `acquire NAME MS` waits for the lock
//! and answers `got`. `release NAME` answers `released` or `lost`. `count NAME FILE HOLDS` answers
//! `counted`: it takes the lock again and again, and adds 1 to the number in the file if the other
//! side was the last to do so, until it has done this HOLDS times.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::Mutex,
};

use crate::server::Kind;

/// How a library's client is installed and started.
pub(super) struct Library {
    pub(super) server: Kind,
    /// The layout in the URL, and its additional options.
    pub(super) layout: &'static str,
    pub(super) options: &'static str,
    /// The version of the library, if several are tested.
    version: &'static str,
    /// Shell commands that install it into the current folder, which contains the program's files.
    install: &'static str,
    /// The program's files.
    files: &'static [(&'static str, &'static str)],
    /// A shell command that starts it, with host and port as `$1` and `$2`.
    start: &'static str,
    /// Whether it can hold a lock that never expires.
    pub(super) endless: bool,
}

macro_rules! files {
    ($($path:literal as $file:literal),*) => {
        &[$(($file, include_str!(concat!("../../programs/", $path)))),*]
    };
}

const ANY: Library = Library {
    server: Kind::Redis,
    layout: "",
    options: "",
    version: "",
    install: "",
    files: &[],
    start: "",
    endless: false,
};

/// The commands that install a Java client, with additional options for Maven. A virtual machine
/// that lives for seconds is better off with its first compiler only.
macro_rules! java {
    ($options:literal) => {
        concat!(
            "MAVEN_OPTS=-XX:TieredStopAtLevel=1 mvn -q -B dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=lib ",
            $options,
            " && javac -J-XX:TieredStopAtLevel=1 -cp 'lib/*' *.java"
        )
    };
}

/// The files of a Java client in a folder of `programs`.
macro_rules! java_files {
    ($folder:literal) => {
        &[
            ("Client.java", include_str!(concat!("../../programs/", $folder, "/Client.java"))),
            ("pom.xml", include_str!(concat!("../../programs/", $folder, "/pom.xml"))),
            ("Driver.java", include_str!("../../programs/Driver.java")),
        ]
    };
}

/// The command that starts a Java client, with arguments before host and port.
macro_rules! java_start {
    ($arguments:literal) => {
        concat!(
            "exec java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx256m -cp 'lib/*:.' Client ",
            $arguments,
            "\"$1\" \"$2\""
        )
    };
}

pub(super) const REDISSON: Library = Library {
    layout: "redisson",
    install: java!(""),
    files: java_files!("redisson"),
    start: java_start!(""),
    ..ANY
};

pub(super) const REDIS_PY: Library = Library {
    layout: "redis-py",
    install: "python3 -m venv venv && venv/bin/pip -q install redis==8.1.0",
    files: files!("redis_py.py" as "client.py", "driver.py" as "driver.py"),
    start: "exec venv/bin/python client.py \"$1\" \"$2\"",
    endless: true,
    ..ANY
};

pub(super) const PYTHON_REDIS_LOCK: Library = Library {
    layout: "python-redis-lock",
    install: "python3 -m venv venv && venv/bin/pip -q install python-redis-lock==4.0.1 redis==8.1.0",
    files: files!("python_redis_lock.py" as "client.py", "driver.py" as "driver.py"),
    start: "exec venv/bin/python client.py \"$1\" \"$2\"",
    endless: true,
    ..ANY
};

pub(super) const NODE_REDLOCK: Library = Library {
    layout: "node-redlock",
    install: "npm install --silent --no-audit --no-fund redlock@5.0.0-beta.2 ioredis@5",
    files: files!("node_redlock.mjs" as "client.mjs"),
    start: "exec node client.mjs \"$1\" \"$2\" \"$PWD\"",
    ..ANY
};

pub(super) const REDSYNC: Library = Library {
    layout: "redsync",
    install: "go mod init client && go get github.com/go-redsync/redsync/v4@v4.13.0 && go mod tidy && go build -o client .",
    files: files!("redsync.go" as "main.go"),
    start: "exec ./client \"$1\" \"$2\"",
    ..ANY
};

pub(super) const SPRING_6: Library =
    Library { version: "6.5.2", install: java!("-Dversion.of.spring=6.5.2"), ..SPRING };

pub(super) const SPRING_7: Library =
    Library { version: "7.0.0", install: java!("-Dversion.of.spring=7.0.0"), ..SPRING };

/// In the mode in which waiters listen to a channel.
const SPRING: Library = Library {
    layout: "spring",
    options: "&registry=app",
    files: java_files!("spring"),
    start: java_start!(""),
    ..ANY
};

pub(super) const SHEDLOCK_IN_REDIS: Library = Library { start: java_start!("redis "), ..SHEDLOCK };

/// With the JdbcTemplate provider.
pub(super) const SHEDLOCK_IN_POSTGRES: Library =
    Library { server: Kind::Postgres, start: java_start!("postgres "), ..SHEDLOCK };

pub(super) const SHEDLOCK_IN_MYSQL: Library =
    Library { server: Kind::Mysql, start: java_start!("mysql "), ..SHEDLOCK };

const SHEDLOCK: Library =
    Library { layout: "shedlock", install: java!(""), files: java_files!("shedlock"), ..ANY };

/// In seconds. A registry that does not answer in this time counts as missing.
const INSTALLED_WITHIN: &str = "180";

/// One installation at a time, since the tests of a library share it.
static INSTALLING: Mutex<()> = Mutex::const_new(());

impl Library {
    /// The folder with the installed client, or why there is none.
    async fn installed(&self) -> Result<PathBuf, String> {
        let _one = INSTALLING.lock().await;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign-clients");
        let folder = folder.join(self.layout).join(self.version);
        let recipe = folder.join("recipe");
        let wanted = format!("{}\n{:?}", self.install, self.files);
        if std::fs::read_to_string(&recipe).is_ok_and(|made| made == wanted) {
            return Ok(folder);
        }
        if folder.exists() {
            std::fs::remove_dir_all(&folder).unwrap();
        }
        std::fs::create_dir_all(&folder).unwrap();
        for (file, text) in self.files {
            std::fs::write(folder.join(file), text).unwrap();
        }
        let mut install = Command::new("timeout");
        install
            .args(["--kill-after=10", INSTALLED_WITHIN, "sh", "-euc", self.install])
            .current_dir(&folder)
            .stdin(Stdio::null());
        let done = install.output().await.map_err(|error| error.to_string())?;
        if !done.status.success() {
            let [out, err] =
                [done.stdout, done.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
            let why = format!("{out}{err}");
            return Err(why.lines().last().unwrap_or("no output, or no end of it").to_owned());
        }
        std::fs::write(recipe, wanted).unwrap();
        Ok(folder)
    }

    /// A running client; `None` if it cannot be installed here.
    pub(super) async fn start(&self, server: SocketAddr) -> Option<Program> {
        match self.installed().await {
            Ok(folder) => Some(Program::start(self.start, &folder, server)),
            Err(why) => {
                // Not by `eprintln`, whose output the test runner captures.
                let line = format!("SKIPPED: no client of {} here: {why}\n", self.layout);
                std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
                None
            }
        }
    }
}

/// A running client. It is killed with this value.
pub(super) struct Program {
    child: Child,
    stdin: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(start: &str, folder: &Path, server: SocketAddr) -> Self {
        let mut command = Command::new("sh");
        command.args(["-euc", start, "sh", &server.ip().to_string(), &server.port().to_string()]);
        command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, stdin, answers: BufReader::new(stdout).lines() }
    }

    pub(super) async fn ask(&mut self, line: &str) {
        self.stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    pub(super) async fn answer(&mut self) -> String {
        let answer = self.answers.next_line().await.unwrap();
        answer.expect("the client of the other library has ended: see stderr")
    }

    pub(super) async fn does(&mut self, line: &str) -> String {
        self.ask(line).await;
        self.answer().await
    }

    /// Kills the process, without a chance to clean up.
    pub(super) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&self.child.wait().await.unwrap()),
            Some(9)
        );
    }
}
