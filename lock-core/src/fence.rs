//! The other side of a fencing token: the protected resource must refuse an old one.

use std::collections::HashMap;

use crate::{FencingToken, sync::Mutex};

/// A token older than one that was admitted before: its holder has been overtaken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fencing token {offered} is stale: {admitted} was admitted for {resource:?}")]
#[non_exhaustive]
pub struct Stale {
    /// The resource that the token was offered for.
    pub resource: String,
    /// The refused token.
    pub offered: FencingToken,
    /// The highest token admitted so far.
    pub admitted: FencingToken,
}

impl Stale {
    /// A refusal of `offered`, where `admitted` was the highest token before.
    #[must_use]
    pub fn new(resource: impl Into<String>, offered: FencingToken, admitted: FencingToken) -> Self {
        Self { resource: resource.into(), offered, admitted }
    }
}

/// A fence in this process's memory, for a resource that lives no longer than the process.
///
/// For data in a store, use that store's fence: it remembers durably, in the same transaction as the
/// write. The idea is Kleppmann's, "How to do distributed locking" (2016).
#[derive(Debug, Default)]
pub struct Fence(Mutex<HashMap<String, FencingToken>>);

impl Fence {
    /// A fence that has admitted nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Admits `token` for `resource` if none higher was admitted before. The same token may come
    /// again: a holder writes more than once.
    ///
    /// # Errors
    /// [`Stale`]; the write must then not happen.
    pub fn admit(&self, resource: &str, token: FencingToken) -> Result<(), Stale> {
        let mut admitted = self.0.lock();
        match admitted.get_mut(resource) {
            Some(highest) if *highest > token => {
                Err(Stale { resource: resource.to_owned(), offered: token, admitted: *highest })
            }
            Some(highest) => {
                *highest = token;
                Ok(())
            }
            None => {
                admitted.insert(resource.to_owned(), token);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admits_what_is_not_older_and_names_what_it_refuses() {
        let fence = Fence::new();
        let [one, two] = [1, 2].map(|value| FencingToken::new(value).unwrap());
        fence.admit("a", one).unwrap();
        fence.admit("a", one).unwrap();
        fence.admit("a", two).unwrap();
        let stale = fence.admit("a", one).unwrap_err();
        assert_eq!((stale.offered, stale.admitted), (one, two));
        fence.admit("b", one).unwrap();
    }
}
