//! What a quorum of Redis promises.

use backend_redis::node::{NodeSettings, RECORD_VERSION};
use lock_core::{Assumption, Guarantees, Promise, QuarantineUse};

use super::{margin_and_waits::Options, node::Node};
use crate::{
    protocol::vote::majority,
    tunables::{ENTRY_LIFE, FAR_POLL, NEAR_POLL},
};

/// The facts on which the guarantees rest.
#[derive(Clone, PartialEq)]
pub(super) struct Basis {
    settings: NodeSettings,
    /// A node whose policy may remove held locks, and the policy.
    evicting: Option<(String, String)>,
    /// A node that does not describe itself as a Redis does, and what that is.
    doubt: Option<(String, String)>,
    /// Why the client cannot rely on a setting that its URL does not name.
    lease_not_in_url: Option<String>,
}

impl Basis {
    pub(super) fn of(nodes: &[Node]) -> Self {
        let doubt = |node: &Node| Some((node.address.clone(), node.server.doubt()?));
        let evicting = |node: &Node| Some((node.address.clone(), node.server.evicting()?));
        Self {
            settings: nodes[0].server.agreed_settings(),
            evicting: nodes.iter().find_map(evicting),
            doubt: nodes.iter().find_map(doubt),
            lease_not_in_url: nodes.iter().find_map(|node| node.server.longest_lease_not_in_url()),
        }
    }
}

pub(super) fn of(basis: &Basis, options: &Options, all: &[Node]) -> Guarantees {
    let Basis { settings, evicting, doubt, lease_not_in_url } = basis;
    let nodes = all.len();
    let show = humantime::format_duration;
    let bound = options.clock_bound;
    let mut promised = Guarantees::new(options.shortest_lease(), settings.longest_lease);
    promised.shared = Promise::Holds { assuming: Vec::new() };
    promised.connection = all
        .iter()
        .map(|node| node.server.connection_security())
        .min()
        .unwrap_or(promised.connection);
    let needed = majority(nodes);
    let assume = |id, text: String| Assumption::new(id, text);
    promised.exclusion = if let Some((node, policy)) = evicting {
        Promise::Withheld {
            why: format!(
                "the maxmemory-policy of {node} is {policy}, which may remove held locks; set noeviction"
            ),
        }
    } else if let Some((node, why)) = doubt {
        Promise::Withheld { why: format!("{node}: {why}") }
    } else if let Some(why) = lease_not_in_url.clone().filter(|_| settings.quarantine) {
        Promise::Withheld { why }
    } else if settings.quarantine {
        Promise::Holds {
            assuming: vec![
                assume(
                    "independent-nodes",
                    "the nodes are independent masters without replicas that could be promoted, and \
                     no address is ever given to another server with other data while a lock is held"
                        .into(),
                ),
                assume(
                    "most-clocks-run",
                    format!(
                        "while a lock is held, the clocks of {needed} of the {nodes} nodes that hold it \
                         step by no more than {}, and no clock steps there and back unseen between two \
                         calls",
                        show(bound)
                    ),
                ),
                assume(
                    "clients-agree-on-settings",
                    "all clients name the same nodes and clock bound and have the nodes' longest lease \
                     and quarantine, unless they are 30s and on, and no data are lost while a changed one is \
                     waited out"
                        .into(),
                ),
            ],
        }
    } else {
        Promise::Withheld {
            why: "the quarantine is off: after a node's restart or loss of data a second holder may be \
                  admitted while the first still relies on its lock; turn it on with init"
                .into(),
        }
    };
    promised.tokens = if settings.quarantine {
        Promise::Holds {
            assuming: vec![
                assume(
                    "clocks-differ-little",
                    format!("the nodes that vote have clocks within {} of the truth", show(bound)),
                ),
                assume(
                    "independent-nodes",
                    "the nodes are independent masters, as for exclusion".into(),
                ),
            ],
        }
    } else {
        Promise::Withheld {
            why:
                "the quarantine is off: tokens of two holders admitted at once may be in any order"
                    .into(),
        }
    };
    promised.quarantine = if settings.quarantine { QuarantineUse::On } else { QuarantineUse::Off };
    promised.push = true;
    promised.raise = true;
    // The nodes' keys expire at different instants, and the entry at the head of the queue may be
    // dead.
    promised.expiry_slack = options.margin() + NEAR_POLL;
    promised.longest_poll = FAR_POLL;
    // A dead writer's entry keeps readers out. They ask again some time after its end.
    promised.dead_waiter_delay = ENTRY_LIFE + FAR_POLL;
    promised.token_lead = settings.longest_lease;
    promised.record_version = Some(RECORD_VERSION);
    promised
}
