//! Until when a majority of nodes is sure to keep the lock.

use super::vote::majority;

/// The majority-th largest expiry: until then a majority of all nodes keeps the lock. One entry per
/// node, `None` if the node does not keep it for us. Returns `None` if too many nodes do not.
pub fn majority_expiry<T: Ord + Copy>(nodes: &[Option<T>]) -> Option<T> {
    let mut known: Vec<T> = nodes.iter().flatten().copied().collect();
    known.sort_unstable_by(|a, b| b.cmp(a));
    known.get(majority(nodes.len()) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_majority_th_largest() {
        assert_eq!(majority_expiry(&[Some(1), Some(9), Some(5)]), Some(5));
        assert_eq!(majority_expiry(&[Some(1), None, Some(5)]), Some(1));
        assert_eq!(majority_expiry::<u64>(&[None, None, Some(5)]), None);
    }
}
