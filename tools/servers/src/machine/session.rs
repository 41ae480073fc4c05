//! The folder of a test process for all its servers, and its clean-up.
//!
//! A test process may be killed with SIGKILL, and then cannot clean up. Two mechanisms do it then:
//!
//! - Every server has a *parent-death signal*, so the kernel kills it. Linux sends that signal when
//!   the **thread** that started the child ends. A test runs in a short-lived thread, so one thread
//!   that never ends starts all servers.
//! - A *janitor*, a shell, reads from a pipe that this process holds. When the pipe closes, it
//!   removes the folder and kills paused processes: a worker of a killed server notices its end by
//!   itself, but not while it is stopped. It also frees the System V memory of a PostgreSQL, see
//!   there.

use std::{
    io::Write as _,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError, mpsc},
};

use crate::error::{Doing as _, KitError, Result};

/// Lines are `+pid` (paused) and `-pid` (not any more). `$0` is the folder.
const JANITOR: &str = r#"
trap '' HUP INT TERM
paused=' '
while read -r line; do
    pid=${line#?}
    case $paused in *" $pid "*) paused="${paused%%" $pid "*} ${paused#*" $pid "}" ;; esac
    case $line in +*) paused="$paused$pid " ;; esac
done
for pid in $paused; do kill -9 "$pid"; done
for lock in "$0"/*/data/postmaster.pid; do
    set -- $(sed -n 7p "$lock")
    [ "$2" ] && ipcrm -m "$2"
done
for _ in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf -- "$0" && break
    sleep 0.2
done
"#;

type Job = (Command, mpsc::Sender<std::io::Result<Child>>);

struct Session {
    folder: PathBuf,
    janitor: Mutex<ChildStdin>,
    starter: Mutex<mpsc::Sender<Job>>,
}

fn session() -> Result<&'static Session> {
    static SESSION: OnceLock<Session> = OnceLock::new();
    static OPENING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = lock(&OPENING);
    if let Some(session) = SESSION.get() {
        return Ok(session);
    }
    let opened = open()?;
    Ok(SESSION.get_or_init(|| opened))
}

fn open() -> Result<Session> {
    let folder = tempfile::Builder::new()
        .prefix("leasehold-kit-")
        .tempdir()
        .doing(|| "make a temporary folder".to_owned())?
        .keep();
    // A server that runs as another user has its own folder in here, and must get to it.
    readable_by_all(&folder, 0o755)?;

    let mut janitor = Command::new("sh")
        .arg("-c")
        .arg(JANITOR)
        .arg(&folder)
        .stdin(Stdio::piped())
        // Held open, they would keep `cargo test | tee` waiting.
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Not killed with the group that a terminal's Ctrl-C or a `timeout` ends.
        .process_group(0)
        .current_dir("/")
        .spawn()
        .doing(|| "start the janitor's `sh`".to_owned())?;
    let pipe = janitor.stdin.take();
    let pipe = pipe.ok_or_else(|| KitError::Unexpected("the janitor has no stdin".to_owned()))?;

    let (starter, jobs) = mpsc::channel::<Job>();
    std::thread::Builder::new()
        .name("kit-starter".to_owned())
        .spawn(move || {
            for (mut command, reply) in jobs {
                // Nobody waiting any more: the child is killed rather than leaked.
                if let Err(mpsc::SendError(Ok(mut child))) = reply.send(command.spawn()) {
                    let _ = child.kill();
                    let _ = child.wait();
                }
            }
        })
        .doing(|| "start a thread".to_owned())?;
    Ok(Session { folder, janitor: Mutex::new(pipe), starter: Mutex::new(starter) })
}

/// The folder of this test process, in which each server has its own.
pub(crate) fn folder() -> Result<&'static Path> {
    Ok(&session()?.folder)
}

/// Starts a child from the thread that never ends, so that a parent-death signal means the process.
pub(crate) fn spawn(command: Command) -> Result<Child> {
    let program = command.get_program().to_owned();
    let (reply, answer) = mpsc::channel();
    let gone = || KitError::Unexpected("the kit's starter thread is gone".to_owned());
    lock(&session()?.starter).send((command, reply)).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?.doing(|| format!("start {}", program.display()))
}

/// Tells the janitor that these processes are stopped now, or (`paused` false) no longer are.
pub(crate) fn note_paused(pids: &[u32], paused: bool) -> Result<()> {
    let sign = if paused { '+' } else { '-' };
    let lines: String = pids.iter().map(|pid| format!("{sign}{pid}\n")).collect();
    lock(&session()?.janitor)
        .write_all(lines.as_bytes())
        .doing(|| "write to the janitor".to_owned())
}

/// Sets a mode whatever the umask is.
pub(crate) fn readable_by_all(path: &Path, mode: u32) -> Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        .doing(|| format!("change the mode of {}", path.display()))
}

/// A panic in another test does not spoil the data under this lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
