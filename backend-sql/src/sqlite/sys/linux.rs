//! Linux.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use lock_core::Error;
use rustix::fs::{AtFlags, CWD, FileType, Mode, StatxAttributes, StatxFlags, mknodat, statx};

pub(crate) use super::unix::*;
use super::unix::{OWN, unknown_clock};

/// Folders that others empty, and when.
pub(crate) const EMPTIED: &[(&str, &str)] = &[
    (
        "/tmp",
        "cleaners delete old files there, and a service with PrivateTmp has a folder of its own",
    ),
    (
        "/var/tmp",
        "cleaners delete old files there, and a service with PrivateTmp has a folder of its own",
    ),
    ("/run", "it is emptied when the machine starts, and /run/user also when its user logs out"),
    ("/dev/shm", "files of a user may be deleted there when that user logs out"),
];

/// Makes an empty file. Does not open it: a process that closes any descriptor of it loses the
/// locks that its SQLite connections have on it.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    mknodat(CWD, path, FileType::RegularFile, Mode::from_raw_mode(OWN), 0).map_err(Into::into)
}

/// Makes a named pipe.
pub(crate) fn make_pipe(path: &Path) -> io::Result<()> {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(OWN), 0).map_err(Into::into)
}

/// Whether this process has the file open.
pub(crate) fn is_open(id: FileId) -> bool {
    let Ok(open) = fs::read_dir("/proc/self/fd") else { return true };
    open.flatten().any(|one| FileId::at(&one.path()) == Some(id))
}

/// Whether this process has one of these files open although it was deleted, or has the file
/// `moved` open. Another file may have got the numbers of a deleted one, so for them the names
/// count that the kernel gives to deleted files.
pub(crate) fn is_left(files: &[PathBuf], moved: Option<FileId>) -> bool {
    let Ok(open) = fs::read_dir("/proc/self/fd") else { return true };
    let deleted = files.iter().map(|file| {
        let mut name = file.as_os_str().to_owned();
        name.push(" (deleted)");
        PathBuf::from(name)
    });
    let deleted: Vec<_> = deleted.collect();
    open.flatten().map(|one| one.path()).any(|one| {
        fs::read_link(&one).is_ok_and(|name| deleted.contains(&name))
            || moved.is_some_and(|id| FileId::at(&one) == Some(id))
    })
}

/// Identifies the clock of leases: a boot of a machine, seen from a time namespace. Processes of
/// one epoch share CLOCK_BOOTTIME.
pub(crate) fn boot() -> Result<String, Error> {
    let path = "/proc/sys/kernel/random/boot_id";
    let boot = fs::read_to_string(path).map_err(|error| unknown_clock(path, error))?;
    // Absent before Linux 5.6, where there are no time namespaces.
    let namespace = rustix::fs::readlink("/proc/self/ns/time", Vec::new());
    let namespace = namespace.map(|link| link.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(format!("{} {namespace}{}", boot.trim(), offset()))
}

/// The offset of this namespace's clock. It is part of the epoch because the kernel reuses the
/// number of a namespace that has ended, and the next one may have another clock: rows of the first
/// would then be held for the difference.
fn offset() -> String {
    let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let boottime = offsets.lines().find_map(|line| line.strip_prefix("boottime"));
    boottime.into_iter().flat_map(str::split_whitespace).map(|word| format!(" {word}")).collect()
}

/// Whether a mount begins with this file.
pub(crate) fn is_mounted(file: &Path) -> bool {
    // Where the kernel does not tell, the list of mounts does.
    is_mount_root(file).unwrap_or_else(|| is_mount_point(file))
}

/// `None` before Linux 5.8, or if statx(2) is forbidden.
fn is_mount_root(file: &Path) -> Option<bool> {
    let told = statx(CWD, file, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty()).ok()?;
    let is_known = told.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT);
    is_known.then(|| told.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Why SQLite's locks may not exclude each other on the file system of this path; `None` if nothing
/// is known against it.
///
/// A file system in user space may well be local, but its kind does not show that. With `fuseblk`
/// it is: then a local block device is mounted. An overlay hides the file system below it.
pub(crate) fn shared(path: &Path) -> Option<String> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let number = rustix::fs::statfs(folder).ok()?.f_type as u64 & 0xffff_ffff;
    if number == FUSE {
        let kind = mounted_as(folder);
        return (kind.as_deref() != Some("fuseblk")).then(|| {
            format!(
                "the file is on {}, a file system in user space: it may be shared with other machines, or with the host of \
                 a virtual machine, and SQLite's locks would not exclude those",
                kind.as_deref().unwrap_or("fuse")
            )
        });
    }
    let (_, name) = SHARED.iter().find(|(known, _)| *known == number)?;
    Some(format!("the file is on {name}, where SQLite's locks do not exclude other machines"))
}

/// The magic numbers of statfs(2), from `linux/magic.h` and the sources of each.
const SHARED: [(u64, &str); 20] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x564c, "NCP"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x2003_0528, "OrangeFS"),
    (0xaad7_aaea, "PanFS"),
    (0xbeef_dead, "StorNext"),
    (0xbacb_acbc, "a shared folder of VMware"),
    (0x786f_4256, "a shared folder of VirtualBox"),
];
/// Also of virtiofs, GlusterFS, SSHFS, JuiceFS and the shares of Docker Desktop.
const FUSE: u64 = 0x6573_5546;

/// The type of the file system that is mounted at this folder or above it, such as `virtiofs`.
fn mounted_as(folder: &Path) -> Option<String> {
    let folder = fs::canonicalize(folder).ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    kind_in(&mounts, &folder)
}

/// The deepest mount counts, and of those at one place the last.
fn kind_in(mounts: &str, folder: &Path) -> Option<String> {
    let above = mounts.lines().filter_map(|line| {
        let (mount, kind) = (mount_point(line)?, line.split(" - ").nth(1)?);
        let depth = folder.starts_with(&mount).then(|| Path::new(&mount).components().count())?;
        Some((depth, kind.split(' ').next()?))
    });
    above.max_by_key(|(depth, _)| *depth).map(|(_, kind)| kind.to_owned())
}

/// Whether something is mounted at exactly this path. `path` has no symbolic links.
fn is_mount_point(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().filter_map(mount_point).any(|mount| Path::new(&mount) == path)
}

/// The mount point in a line of mountinfo. The kernel writes four characters as octal numbers.
fn mount_point(line: &str) -> Option<String> {
    let written = line.split(' ').nth(4)?;
    let octal = [(r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", r"\")];
    Some(
        octal.into_iter().fold(written.to_owned(), |path, (code, plain)| path.replace(code, plain)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:31 / /srv rw shared:1 - fuse.glusterfs h:/v rw
31 30 0:32 / /srv/my\\040disk rw shared:2 master:3 - fuseblk /dev/sdb1 rw
32 30 0:33 / /srv/vm rw - tmpfs none rw
33 30 0:34 / /srv/vm rw - virtiofs share rw
34 22 254:0 /a/locks.db /app/locks.db rw - ext4 /dev/vda rw
";

    #[test]
    fn the_deepest_and_last_mount_names_the_kind() {
        for (folder, kind) in [
            ("/var/lib", "ext4"),
            ("/srv", "fuse.glusterfs"),
            ("/srvice", "ext4"),
            ("/srv/my disk/a", "fuseblk"),
            ("/srv/vm", "virtiofs"),
        ] {
            assert_eq!(kind_in(MOUNTS, Path::new(folder)).as_deref(), Some(kind), "{folder}");
        }
    }

    #[test]
    fn a_mount_point_is_read_from_the_fifth_field() {
        let points: Vec<_> = MOUNTS.lines().filter_map(mount_point).collect();
        assert_eq!(points[2], "/srv/my disk");
        assert_eq!(points[5], "/app/locks.db");
        assert!(is_mount_point(Path::new("/proc")) && !is_mount_point(Path::new("/proc/self")));
    }

    /// The environment variable that gives a process beside a mount of FUSE its path.
    const PART: &str = "LEASEHOLD_FUSE_PART";

    #[test]
    #[ignore = "a process that the next test starts"]
    fn a_part_beside_fuse() {
        let Some(path) = std::env::var_os(PART) else { return };
        println!("the answer is {:?}", shared(Path::new(&path)));
    }

    /// A real mount, without the program that would serve it: the kernel answers statfs(2) to other
    /// users by itself. Making one takes root, and `/dev/fuse`; without these this says on the real
    /// standard error that it checks nothing.
    #[test]
    fn a_file_on_fuse_is_named_by_the_kind_of_its_mount() {
        let folder = tempfile::tempdir().unwrap();
        let script = "exec 3<>/dev/fuse && mount -i -t \"$1\" -o fd=3,rootmode=40000,user_id=4242,group_id=4242 none \"$2\" \
                      || exit 99; shift 2; exec \"$@\"";
        let mut command = std::process::Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh", "fuse.sshfs"]).arg(folder.path());
        command.arg(std::env::current_exe().unwrap()).env(PART, folder.path().join("locks.db"));
        let part = "sqlite::sys::system::tests::a_part_beside_fuse";
        let output = command.args(["--exact", part, "--ignored", "--nocapture"]).output().unwrap();
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            let line = format!("SKIPPED: no FUSE can be mounted here: {why}\n");
            std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
            return;
        }
        let answer = String::from_utf8_lossy(&output.stdout);
        assert!(
            answer.contains("the file is on fuse.sshfs, a file system in user space"),
            "{answer}"
        );
        assert_eq!(shared(&folder.path().join("locks.db")), None, "the folder below the mount");
    }
}
