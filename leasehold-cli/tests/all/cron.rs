//! The cron job of docs/cli.md on several machines, with only the host and the job replaced.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use servers::{Redis, RedisOptions, Server as _};

use crate::support::locks::Store;
use crate::support::{command, docs};

/// A machine with a home of its own, in which the command is installed.
struct Machine(PathBuf);

impl Machine {
    fn new(folder: &Store, name: &str) -> Self {
        let home = folder.beside(name);
        fs::create_dir_all(home.join(".cargo/bin")).unwrap();
        std::os::unix::fs::symlink(command(), home.join(".cargo/bin/leasehold")).unwrap();
        Self(home)
    }

    /// What cron does with the lines of a crontab: the first sets a variable, the second is run by
    /// a shell.
    fn cron(&self, lines: &str) -> Child {
        let (variable, line) = lines.trim().split_once('\n').unwrap();
        let (name, value) = variable.split_once('=').unwrap();
        let line = line.strip_prefix("0 2 * * *").unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).env("HOME", &self.0).env(name, value).stdin(Stdio::null());
        shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

#[tokio::test]
async fn a_cron_job_on_several_machines_runs_once() {
    let (folder, redis) = (Store::new(), Redis::start(RedisOptions::new()).await.unwrap());
    docs::program(&folder.beside("nightly"), "echo \"ran with $LEASEHOLD_TOKEN\"");
    let here = |text: &str| {
        let text = text.replace("redis://host", &format!("redis://{}", redis.address()));
        text.replace("/usr/local/bin/nightly", folder.beside("nightly").to_str().unwrap())
    };
    let machines: Vec<_> =
        ["one", "two", "three"].iter().map(|name| Machine::new(&folder, name)).collect();
    let init = here(docs::quoted("leasehold --store 'redis:"));
    let path = format!("{}:/usr/bin:/bin", machines[0].0.join(".cargo/bin").display());
    let made = Command::new("sh").args(["-c", &init]).env("PATH", path).output().unwrap();
    assert!(made.status.success(), "{made:?}");

    let (_, crontab) = docs::PAGE.split_once("```text\nLEASEHOLD_STORE=").unwrap();
    let crontab = format!("LEASEHOLD_STORE={}", crontab.split("```").next().unwrap());
    let crontab = here(&crontab);
    let at_once: Vec<_> = machines.iter().map(|machine| machine.cron(&crontab)).collect();
    let mut ended: Vec<_> = at_once.into_iter().map(|it| it.wait_with_output().unwrap()).collect();
    // One whose clock is behind, when the job is over.
    ended.push(machines[0].cron(&crontab).wait_with_output().unwrap());
    let mut codes: Vec<_> = ended.iter().map(|output| output.status.code().unwrap()).collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 75, 75, 75], "{ended:?}");
    let ran = ended.iter().filter(|output| output.stdout.starts_with(b"ran with "));
    assert_eq!(ran.count(), 1, "{ended:?}");
    let told = ended.iter().filter(|it| it.stderr.starts_with(b"leasehold: lock \"nightly\" not"));
    assert_eq!(told.count(), 3, "{ended:?}");
}
