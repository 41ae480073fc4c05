//! A copy of a server's data folder, made while the server was stopped, and restored later.

use std::{path::PathBuf, process::Command};

use rustix::process::Signal;

use crate::{
    error::Result,
    machine::programs,
    server::{Data, Server},
};

/// A copy of the folder `data` of a server.
#[derive(Debug)]
pub struct ColdCopy {
    data: PathBuf,
    copy: PathBuf,
}

impl ColdCopy {
    /// Shuts the server down in order by `signal`, copies its data, and starts it again.
    ///
    /// # Errors
    ///
    /// As [`Process::stop`](crate::Process::stop) and [`Server::restart`].
    pub async fn take(server: &mut impl Server, signal: Signal) -> Result<Self> {
        let folder = server.process().folder().to_owned();
        let (data, copy) = (folder.join("data"), folder.join("data.copy"));
        server.process_mut().stop(signal).await?;
        let mut cp = Command::new(programs::find("cp", "coreutils")?);
        programs::run({
            cp.arg("-a").arg(&data).arg(&copy);
            cp
        })
        .await?;
        server.restart(Data::Keep).await?;
        Ok(Self { data, copy })
    }

    /// Ends the server by `signal`, replaces its data with the copy, and starts it again.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    pub async fn restore(&self, server: &mut impl Server, signal: Signal) -> Result<()> {
        server.process_mut().stop(signal).await?;
        for args in [vec!["rm", "-rf"], vec!["cp", "-a"]] {
            let mut command = Command::new(programs::find(args[0], "coreutils")?);
            command.arg(args[1]);
            if args[0] == "cp" {
                command.arg(&self.copy);
            }
            command.arg(&self.data);
            programs::run(command).await?;
        }
        server.restart(Data::Keep).await
    }
}
