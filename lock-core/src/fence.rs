//! The check at the protected resource, which must refuse a stale fencing token.

use std::collections::HashMap;

use crate::{Error, FencingToken, sync::Mutex};

/// The token is lower than one that was admitted before: a later holder has already written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fencing token {offered} is stale: {admitted} was admitted for {resource:?}")]
#[non_exhaustive]
pub struct Stale {
    /// The resource.
    pub resource: String,
    /// The refused token.
    pub offered: FencingToken,
    /// The highest token admitted so far.
    pub admitted: FencingToken,
}

impl Stale {
    /// A refusal of `offered`, because `admitted` was admitted before.
    #[must_use]
    pub fn new(resource: impl Into<String>, offered: FencingToken, admitted: FencingToken) -> Self {
        Self { resource: resource.into(), offered, admitted }
    }
}

/// Why the fence of a store refused a write, or may have.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// A later holder has written: this write must not happen.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// The store's answer is missing or is an error. If the error is ambiguous, a write that the
    /// fence makes itself may have happened.
    #[error(transparent)]
    Store(#[from] Error),
}

/// A fence in this process's memory, for a resource that ends with the process.
///
/// For data in a store, use that store's fence. It keeps its record durably, in the same
/// transaction as the write. The idea is from Kleppmann, "How to do distributed locking" (2016).
#[derive(Debug, Default)]
pub struct Fence(Mutex<HashMap<String, FencingToken>>);

impl Fence {
    /// A fence that has admitted nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Admits `token` for `resource`, unless a higher one was admitted before.
    ///
    /// The same token may be admitted again, because a holder may write more than once.
    ///
    /// # Errors
    /// [`Stale`]: the caller must not write.
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
    fn admits_the_same_or_a_higher_token_and_refuses_a_lower_one() {
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
