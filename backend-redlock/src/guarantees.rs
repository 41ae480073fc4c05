//! What a quorum of Redis promises.

use std::time::Duration;

use lock_core::{Assumption, Guarantees, Promise, QuarantineUse};

use crate::{config::Options, peer::Peer, quorum::Basis, vote::majority};

pub(crate) fn of(basis: &Basis, options: &Options, peers: &[Peer]) -> Guarantees {
    let Basis { settings, evicting, untold } = basis;
    let nodes = peers.len();
    let show = humantime::format_duration;
    let bound = options.clock_bound;
    let mut promised = Guarantees::new(options.shortest_lease(), settings.longest_lease);
    promised.link = peers.iter().map(|peer| peer.node.link()).min().unwrap_or(promised.link);
    let needed = majority(nodes);
    let assume = |id, text: String| Assumption::new(id, text);
    promised.exclusion = if let Some((node, policy)) = evicting {
        Promise::Withheld {
            why: format!(
                "the maxmemory-policy of {node} is {policy}, which may remove held locks; set noeviction"
            ),
        }
    } else if let Some(why) = untold.clone().filter(|_| settings.quarantine) {
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
                    "all clients name the same nodes and clock bound and are told the nodes' longest lease \
                     and quarantine, unless they are 30s and on, and no data are lost while a changed one is \
                     waited out"
                        .into(),
                ),
            ],
        }
    } else {
        Promise::Withheld {
            why: "the quarantine is off: after a node's restart or loss of data a second holder may be \
                  admitted while the first still believes; turn it on with init"
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
    // The nodes' keys end at different instants, and the queue's head may be dead.
    promised.expiry_slack = 2 * bound + Duration::from_millis(500);
    promised.longest_poll = Duration::from_secs(1);
    promised.token_lead = settings.longest_lease;
    promised
}
