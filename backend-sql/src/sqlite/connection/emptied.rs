//! Folders that others empty.

use std::{fs, path::Path};

use crate::sqlite::sys::EMPTIED;

/// What to tell an operator of a path in a folder that others empty. A file that is deleted while
/// locks are held leads to two holders, until the first of them renews.
pub(crate) fn emptied(path: &Path) -> Option<String> {
    let folder = fs::canonicalize(path.parent()?).ok()?;
    let (of, why) = EMPTIED.iter().find(|(of, _)| folder.starts_with(of))?;
    Some(format!(
        "{path:?} is in {of}: {why}; if the file is deleted while locks are held, others get them too; keep it in a folder such as \
         /var/lib/app"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_others_empty_are_named_whatever_leads_there() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let link = folder.path().join("link");
        for (target, of) in [("/tmp", "/tmp"), ("/var/tmp", "/var/tmp"), ("/run", "/run")] {
            std::os::unix::fs::symlink(target, &link).unwrap();
            let told = emptied(&link.join("locks.db")).unwrap();
            assert!(told.contains(&format!("is in {of}: ")), "{told}");
            fs::remove_file(&link).unwrap();
        }
        assert!(emptied(&folder.path().join("locks.db")).unwrap().contains("/dev/shm"));
        assert_eq!(emptied(Path::new("/var/lib/locks.db")), None);
    }
}
