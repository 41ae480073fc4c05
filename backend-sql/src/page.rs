//! A page of a listing.

use lock_core::{Env as _, Error, OncePer, Page, SystemEnv};

use crate::dialect::{Listed, Row};

/// Limits the lines about rows that cannot be read: a list may be read many times a second.
static LEFT_OUT: OncePer = OncePer::minute();

/// A page of held names, from the rows that were read with this limit.
pub(crate) fn page(rows: Vec<Listed>, limit: usize) -> Page {
    let full = rows.len() == limit;
    let next = rows.last().filter(|_| full).map(|(at, _)| at.clone());
    let read = |(at, row): Listed| {
        let warn = |error: &Error| {
            if LEFT_OUT.is_due(SystemEnv.now()) {
                tracing::warn!(target: "leasehold", ?at, %error, "a row of a lock is left out");
            }
        };
        row.inspect_err(warn).ok()
    };
    // A lease may have ended since the rows were read.
    let states = rows.into_iter().filter_map(read).map(Row::into_state);
    Page::new(states.filter(|state| state.holder.is_some()).collect(), next)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn row(name: &str, remaining: Duration) -> Listed {
        let owner = "0123456789abcdef0123456789abcdef";
        (name.to_owned(), Row::read(name, Some(owner), Some("label"), 7, 1, remaining))
    }

    #[test]
    fn a_lease_that_ended_while_the_list_was_read_is_not_listed() {
        let left = [10, 0, 20, 0].map(Duration::from_secs);
        let rows =
            || ["a", "b", "c", "d"].into_iter().zip(left).map(|(name, left)| row(name, left));
        let names = |page: &Page| -> Vec<String> {
            page.locks.iter().map(|state| state.name.as_str().to_owned()).collect()
        };
        let last = page(rows().collect(), 5);
        assert_eq!((names(&last), &last.next), (vec!["a".to_owned(), "c".to_owned()], &None));
        // More rows may follow a full page, however many of its leases have ended.
        let full = page(rows().collect(), 4);
        assert_eq!((full.locks.len(), full.next.as_deref()), (2, Some("d")));
        let ended = page(vec![row("b", Duration::ZERO)], 1);
        assert_eq!((ended.locks.len(), ended.next.as_deref()), (0, Some("b")));
    }
}
