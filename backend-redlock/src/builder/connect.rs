//! Opening a store: the first call to each node.

use std::sync::Arc;

use lock_core::{Error, ErrorKind};
use tokio::sync::mpsc;

use crate::{
    quorum::nodes::Quorum,
    tunables::{CONNECT_REST, CONNECT_WAITS},
};

/// Connects to all nodes at once.
pub(super) async fn connect_all(quorum: &Arc<Quorum>) -> Result<(), Error> {
    let nodes = quorum.nodes.len();
    let (results, mut received) = mpsc::channel(nodes);
    for at in 0..nodes {
        let (quorum, results, own) = (Arc::clone(quorum), results.clone(), Arc::clone(quorum));
        quorum.spawn_background(async move {
            results.send((at, own.hello(at).await)).await.ok();
        });
    }
    drop(results);
    let mut silent: Vec<usize> = (0..nodes).collect();
    let (mut known, mut answered, mut failure) = (Vec::new(), 0, None);
    let mut rest = std::pin::pin!(tokio::time::sleep(quorum.options.admin_wait() * CONNECT_WAITS));
    loop {
        let word = tokio::select! {
            biased;
            word = received.recv() => word,
            () = &mut rest => None,
        };
        let Some((at, settings)) = word else { break };
        silent.retain(|other| *other != at);
        match settings {
            Ok(settings) => {
                answered += 1;
                known.extend(settings);
                if answered == quorum.majority() {
                    rest.as_mut().reset(tokio::time::Instant::now() + CONNECT_REST);
                }
            }
            // A node that refuses this client now will keep refusing it.
            Err(error) if !error.is_retryable() => {
                let message = format!("{} cannot be used", quorum.nodes[at].address);
                return Err(Error::new(error.kind(), message).with_source(error));
            }
            Err(error) => failure = Some(error),
        }
    }
    for at in silent {
        quorum.suspect(at, "no answer to the first greeting");
    }
    if answered < quorum.majority() {
        return Err(quorum.too_few(answered, failure));
    }
    if let Some((node, twin)) = quorum.nodes.iter().find_map(|node| Some((node, node.twin()?))) {
        let message = format!("{} {twin}", node.address);
        return Err(Error::new(ErrorKind::Config, message));
    }
    // If a node has lost its record or is down, the client assumes the settings of the others.
    let count = |settings| known.iter().filter(|other| **other == settings).count();
    if let Some(common) = known.iter().copied().max_by_key(|settings| count(*settings)) {
        for node in &quorum.nodes {
            let has_its_own = node.span().is_some() && known.len() == answered;
            if !has_its_own {
                node.server.set_agreed_settings(common);
            }
        }
    }
    quorum.options.check_longest(quorum.nodes[0].server.agreed_settings().longest_lease)
}
