//! A store of its own for each test, and the real `leasehold` on it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::Running;

/// A SQLite file in a directory of its own.
pub struct Store {
    directory: tempfile::TempDir,
}

impl Store {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    /// With its directory in this one.
    pub fn within(folder: &str) -> Self {
        Self { directory: tempfile::tempdir_in(folder).unwrap() }
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A file beside the store's.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    /// The files in the directory, sorted, except the kit's list of ports, which all tests of a
    /// user share.
    pub fn left(&self) -> Vec<String> {
        let files = fs::read_dir(self.directory()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> =
            names.filter(|name| !name.starts_with("leasehold-kit-ports")).collect();
        names.sort();
        names
    }

    /// Waits until there is nothing else in the directory: the clean-up may come a little later.
    pub fn has_only_beside(&self, names: &[&str]) {
        super::until("nothing else to be left", || (self.left() == names).then_some(()));
    }

    pub fn url(&self) -> String {
        format!("sqlite:{}", self.beside("locks.db").display())
    }

    /// `leasehold` on this store, without a controlling terminal, whatever the tests have.
    pub fn leasehold(&self) -> Command {
        let mut command = super::new_session();
        command.arg(super::command()).env("LEASEHOLD_STORE", self.url());
        // A test may name a bucket in place of this store.
        command.envs(servers::S3::CREDENTIALS);
        command
    }

    /// Starts `leasehold run OPTIONS job -- sh -c SCRIPT`.
    pub fn run(&self, options: &[&str], script: &str) -> Running {
        let mut command = self.leasehold();
        command.arg("run").args(options).args(["job", "--", "sh", "-c", script]);
        Running::start(&mut command)
    }

    /// Does an action to its end.
    pub fn act<A: AsRef<OsStr>>(&self, args: &[A]) -> Output {
        self.leasehold().args(args).output().unwrap()
    }

    /// The same, for an action that must succeed; its stdout.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.act(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*stderr), (Some(0), ""), "{args:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The same with `--json`.
    pub fn json(&self, args: &[&str]) -> serde_json::Value {
        let args: Vec<_> = args.iter().copied().chain(["--json"]).collect();
        serde_json::from_str(&self.ok(&args)).unwrap()
    }
}

/// The line of a failure of leasehold's own, and its exit code: there must be nothing else but
/// warnings.
pub fn failure(output: &Output) -> (i32, String) {
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    let lines: Vec<_> = stderr.lines().filter(|line| !line.contains("  WARN ")).collect();
    assert_eq!(lines.len(), 1, "{stderr}");
    assert!(lines[0].starts_with("leasehold: "), "{stderr}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    (output.status.code().unwrap(), lines[0].to_owned())
}

/// A user who is not root: the tests' own, or `nobody`.
pub struct Unprivileged {
    /// A copy of `leasehold` that this user can reach.
    program: PathBuf,
    root: bool,
    home: tempfile::TempDir,
}

impl Unprivileged {
    pub fn new() -> Self {
        let root = rustix::process::geteuid().is_root();
        let home = tempfile::tempdir().unwrap();
        open_up(home.path(), 0o777);
        let program = home.path().join("leasehold");
        // By a process of its own: what another test forks meanwhile would keep a file that is
        // written here open, and nobody can run such a one.
        let copied = Command::new("cp").arg(super::command()).arg(&program).status().unwrap();
        assert!(copied.success());
        Self { program, root, home }
    }

    /// A directory that everybody may write to.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// `leasehold` as this user, with nothing in its environment that names a store.
    pub fn leasehold(&self) -> Command {
        let mut command = if self.root {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
            command.arg(&self.program);
            command
        } else {
            Command::new(&self.program)
        };
        command.env_remove("LEASEHOLD_STORE").env_remove("XDG_STATE_HOME");
        command.env("HOME", self.home()).current_dir(self.home());
        command
    }
}

pub fn open_up(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
