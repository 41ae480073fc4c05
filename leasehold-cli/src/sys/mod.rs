//! What the command asks of the operating system, besides [`supervise`](crate::supervise).
//!
//! | | Linux | macOS, other Unix | Windows |
//! |---|---|---|---|
//! | folder of the default store | `$XDG_STATE_HOME`, `~/.local/state`; of root `/var/lib` | `~/Library/Application Support`; of root `/Library/Application Support` | `%LOCALAPPDATA%` |
//! | that folder is for one user | owner and mode are checked | the same | not checked: the system makes it so in a user's profile |
//! | the file of `--handle-file` | mode 0600 | the same | as its folder allows |
//! | `hold` refuses a stdin that has ended | a file, `/dev/null` | the same | a file |
//! | `list --watch` ends with | `q`, Ctrl-C | the same | Ctrl-C; the lists stand one below the other |
//! | lines for a reader of stderr who does not read | are given up after 100 ms | the same | after 2 s |

#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(all(unix, not(target_os = "linux")), path = "macos.rs")]
#[cfg_attr(windows, path = "windows.rs")]
mod system;
#[cfg(unix)]
mod unix;

pub(crate) use system::{
    CONVENTION, DEFAULT_STORES, Keyboard, WEAKER, create_private, is_root, make_private,
    takes_more, unfit_stdin,
};
