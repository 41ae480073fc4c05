//! What this backend asks of the operating system.
//!
//! | | Linux | macOS, other Unix | Windows |
//! |---|---|---|---|
//! | a push to a waiter | a named pipe | a named pipe, made by `/usr/bin/mkfifo` | none: waiters poll, and `Guarantees` promises no push |
//! | who may read the file | its mode is checked | its mode is checked | not checked: an assumption in `Guarantees`; `access=group` is refused |
//! | the same file at the path | device and inode | device and inode | an open file is neither moved nor deleted; a link to its folder that is changed is not noticed |
//! | a file that is open and no longer at its path | seen | any other file at the path counts as this | cannot be |
//! | a file with hard links, or mounted by itself | refused | hard links are refused; a file is not mounted | hard links are refused; a file is not mounted |
//! | file systems that other machines share | by the number of the kind | by `MNT_LOCAL`, and the kinds of FUSE | paths that lead to a network share |
//! | the clock of leases | of a boot and a time namespace | of a boot | of a boot: its number in the registry, else the time it began |
//!
//! The numbers of two boots of Windows may only be equal if the registry has none and both began
//! within minutes. A lock of the first boot may then be held for these minutes longer.

#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(all(unix, not(target_os = "linux")), path = "macos.rs")]
#[cfg_attr(windows, path = "windows.rs")]
mod system;
#[cfg(unix)]
mod unix;

pub(super) use system::{
    EMPTIED, FileId, HAS_PIPES, assumptions, boot, create, exposed, file_path, give_to_group,
    has_links, has_no_reader, is_left, is_mounted, is_open, make_pipe, may_use, open_pipe, shared,
};
