//! leasehold's side of the processes of the job: the outer job object.

use std::io;
use std::os::windows::io::AsRawHandle as _;
use std::process::Child;

use win32job::{ExtendedLimitInfo, Job, JobError};

use super::signals::Signals;
use crate::tunables::{KILL_LOOKS, KILL_POLL};

pub(in crate::supervise) struct Tree(Job);

impl Tree {
    pub(in crate::supervise) fn new(_: &Signals) -> io::Result<Self> {
        ends_with_us().map(Self)
    }

    /// The job reaper runs. It starts nothing before it hears of its deadline, and that is sent
    /// later.
    pub(in crate::supervise) fn starts_with(&mut self, reaper: &Child) -> io::Result<()> {
        self.0.assign_process(reaper.as_raw_handle() as isize).map_err(cause)
    }

    /// COMMAND runs.
    pub(in crate::supervise) fn has_command(&mut self, _: u32) {}

    /// Waits until the system has ended the job, after the job reaper has ended. Returns how many
    /// processes are left.
    pub(in crate::supervise) async fn kill(&self) -> u64 {
        let mut looks = 0;
        loop {
            let left = self.0.query_process_id_list().map_or(0, |list| list.len());
            if left == 0 || looks >= KILL_LOOKS {
                return left as u64;
            }
            looks += 1;
            tokio::time::sleep(KILL_POLL).await;
        }
    }
}

/// A job object that ends with its last handle, and so with this process. No process may leave it.
pub(super) fn ends_with_us() -> io::Result<Job> {
    let mut limits = ExtendedLimitInfo::new();
    limits.limit_kill_on_job_close();
    Job::create_with_limit_info(&limits).map_err(cause)
}

pub(super) fn cause(error: JobError) -> io::Error {
    io::Error::other(error)
}
