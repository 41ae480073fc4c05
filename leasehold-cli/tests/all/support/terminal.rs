//! A pseudo-terminal, and a session on it.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::LIMIT;

/// A session whose controlling terminal is ours to type at.
pub struct Session {
    child: Child,
    keyboard: Option<File>,
    screen: Receiver<u8>,
    seen: String,
    reader: Option<JoinHandle<()>>,
    closing: Arc<AtomicBool>,
}

impl Session {
    /// Runs `command` as the leader of a new session on a new terminal.
    pub fn start(command: &[&OsStr]) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let terminal = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(rustix::fs::OFlags::NOCTTY.bits() as i32)
            .open(name.to_str().unwrap())
            .unwrap();
        let side = || Stdio::from(terminal.try_clone().unwrap());
        let child = super::new_session()
            .arg("--ctty")
            .args(command)
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .spawn()
            .unwrap();
        let closing = Arc::new(AtomicBool::new(false));
        let copy = File::from(master.try_clone().unwrap());
        let (screen, reader) = read(copy, Arc::clone(&closing));
        Self {
            child,
            keyboard: Some(File::from(master)),
            screen,
            seen: String::new(),
            reader: Some(reader),
            closing,
        }
    }

    /// Types, control characters and all.
    pub fn type_in(&mut self, text: &str) {
        self.keyboard.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Reads the screen until it shows `text` behind what was waited for before; all that was
    /// skipped to get there.
    pub fn until(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at + text.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            match self.screen.recv_timeout(LIMIT) {
                Ok(byte) => self.seen.push(byte.into()),
                Err(_) => panic!("waited for {text:?}; the screen shows {:?}", self.seen),
            }
        }
    }

    /// Closes the terminal's other end, as when a connection breaks.
    pub fn hang_up(&mut self) {
        self.closing.store(true, Ordering::Release);
        // The echo wakes the reader, which then lets go of its copy.
        self.type_in("x");
        self.reader.take().unwrap().join().unwrap();
        self.keyboard = None;
    }

    /// Kills the session's leader.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    pub fn ended(mut self) -> ExitStatus {
        super::until_gone(&super::handle(Pid::from_child(&self.child)));
        self.child.wait().unwrap()
    }
}

impl Drop for Session {
    /// A failed test leaves nothing behind. What the leader has started learns of its end by a
    /// hang-up only, and may ignore that: a shell that reads from a terminal that is gone reads
    /// again and again.
    fn drop(&mut self) {
        for process in super::session(Pid::from_child(&self.child)) {
            let _ = kill_process(process, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

fn read(stream: File, closing: Arc<AtomicBool>) -> (Receiver<u8>, JoinHandle<()>) {
    let (send, receive) = channel();
    let reader = thread::spawn(move || {
        for byte in BufReader::new(stream).bytes().map_while(Result::ok) {
            if closing.load(Ordering::Acquire) || send.send(byte).is_err() {
                return;
            }
        }
    });
    (receive, reader)
}
