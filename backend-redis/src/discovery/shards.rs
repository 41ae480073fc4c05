//! A node's map of its cluster: the answer to CLUSTER SLOTS.

use std::collections::HashSet;

use lock_core::{Error, ErrorKind};
use redis::Value;

use crate::settings::Address;

/// The owners of all slots, and the other nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Shards {
    ranges: Vec<Range>,
    /// All nodes that can be reached.
    pub(crate) addresses: HashSet<Address>,
    /// The ids of all nodes. No two nodes in the world share one.
    pub(crate) ids: HashSet<String>,
}

/// A range of slots.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
    /// `None` for a node that names no host, neither its own nor that of the asked node.
    master: Option<Address>,
}

/// The owner of a slot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Owner<'a> {
    Nobody,
    /// A node that should announce a host name and has none.
    Unnamed,
    At(&'a Address),
}

impl Shards {
    pub(crate) fn owner(&self, slot: u16) -> Owner<'_> {
        let range = self.ranges.iter().find(|range| (range.first..=range.last).contains(&slot));
        match range.map(|range| &range.master) {
            None => Owner::Nobody,
            Some(None) => Owner::Unnamed,
            Some(Some(address)) => Owner::At(address),
        }
    }

    /// Whether this may be the cluster of these nodes, or one that has grown out of it. A map that
    /// names no node proves nothing.
    pub(crate) fn may_be_of(&self, ids: &HashSet<String>) -> bool {
        ids.is_empty() || self.ids.is_empty() || !ids.is_disjoint(&self.ids)
    }

    /// Reads the answer of the node at `asked`. For each range it has the first slot, the last
    /// slot, and the nodes, the master first.
    pub(crate) fn read(answer: Value, asked: &Address) -> Result<Self, Error> {
        let message = "CLUSTER SLOTS was not understood; must name the host, the port and the id of each node";
        Self::understood(answer, asked).ok_or_else(|| Error::new(ErrorKind::Config, message))
    }

    fn understood(answer: Value, asked: &Address) -> Option<Self> {
        let Value::Array(ranges) = answer else { return None };
        let mut shards = Self::default();
        for range in ranges {
            let Value::Array(parts) = range else { return None };
            let [Value::Int(first), Value::Int(last), nodes @ ..] = parts.as_slice() else {
                return None;
            };
            let mut addresses = Vec::new();
            for node in nodes {
                let Value::Array(node) = node else { return None };
                // Without ids, a node of another cluster would not be noticed.
                let [host, Value::Int(port), id, ..] = node.as_slice() else { return None };
                let host = match host {
                    Value::Nil => "",
                    host => text(host)?,
                };
                addresses.push(asked.beside(host, u16::try_from(*port).ok()?));
                shards.ids.insert(text(id)?.to_owned());
            }
            let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
            shards.addresses.extend(addresses.iter().flatten().cloned());
            if !addresses.is_empty() {
                shards.ranges.push(Range { first, last, master: addresses.swap_remove(0) });
            }
        }
        Some(shards)
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_a_node_without_a_name_is_where_it_was_asked() {
        let text = |text: &str| Value::BulkString(text.into());
        let node = |host: Value, port| Value::Array(vec![host, Value::Int(port), text("id")]);
        let range = |first, last, nodes: Vec<Value>| {
            Value::Array([vec![Value::Int(first), Value::Int(last)], nodes].concat())
        };
        let answer = Value::Array(vec![
            range(0, 4000, vec![node(text("a"), 1), node(text("b"), 2)]),
            range(4001, 8000, vec![node(Value::Nil, 3), node(text("?"), 4)]),
            range(8001, 9000, vec![node(text(""), 5)]),
            range(9001, 9100, vec![node(text("?"), 6), node(text("c"), 7)]),
        ]);
        let asked = Address::Tcp("seed".into(), 9);
        let map = Shards::read(answer, &asked).unwrap();
        let at = |host: &str, port| Address::Tcp(host.into(), port);
        assert_eq!(map.owner(4000), Owner::At(&at("a", 1)));
        assert_eq!(map.owner(4001), Owner::At(&at("seed", 3)));
        assert_eq!(map.owner(8001), Owner::At(&at("seed", 5)));
        // Not its replica.
        assert_eq!(map.owner(9001), Owner::Unnamed);
        assert_eq!(map.owner(9101), Owner::Nobody);
        let addresses = [at("a", 1), at("b", 2), at("seed", 3), at("seed", 5), at("c", 7)];
        assert_eq!(map.addresses, HashSet::from(addresses));
        assert!(Shards::read(Value::Nil, &asked).is_err());
        let nameless = Value::Array(vec![text("a"), Value::Int(1)]);
        let answer = Value::Array(vec![range(0, 16383, vec![nameless])]);
        assert!(Shards::read(answer, &asked).unwrap_err().to_string().contains("id of each node"));
    }

    #[test]
    fn a_cluster_is_known_by_its_nodes() {
        let of = |ids: &[&str]| Shards {
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            ..Shards::default()
        };
        let ours = of(&["a", "b"]).ids;
        assert!(of(&["b", "c"]).may_be_of(&ours));
        assert!(of(&[]).may_be_of(&ours) && of(&["c"]).may_be_of(&HashSet::new()));
        assert!(!of(&["c"]).may_be_of(&ours));
    }
}
