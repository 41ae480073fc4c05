//! Replaces a member's data with that of a snapshot.

use std::{path::Path, process::Command};

use super::member::Member;
use crate::{
    error::{Doing as _, Result},
    machine::programs,
};

/// Replaces the data of a member that does not run.
pub(super) async fn restore(member: &Member, file: &Path) -> Result<()> {
    let data = member.data();
    std::fs::remove_dir_all(&data).doing(|| format!("remove {}", data.display()))?;
    let mut command = Command::new(programs::find("etcdctl", "etcd-client")?);
    command.env("ETCDCTL_API", "3").args(["snapshot", "restore"]).arg(file).args(member.identity());
    command.arg("--data-dir").arg(&data);
    programs::run(command).await.map(drop)
}
