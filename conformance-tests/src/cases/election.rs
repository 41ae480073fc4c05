//! An election among real processes. The leader is killed or paused again and again.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use lock_core::{FencingToken, LockName};
use tokio::sync::watch;

use super::{cases, processes};
use crate::{
    child::{Child, Job},
    history::{Event, History, Rule, What, assert_clean},
    setting::Setting,
    sys::{PAUSES, Signal},
};

cases! {
    "S1" an_election_outlives_its_leaders processes;
}

const CANDIDATES: usize = 5;
/// How many kills and pauses, in turn. The second is for `LEASEHOLD_SOAK=1`.
const FAULTS: [usize; 2] = [6, 50];
/// On a busy machine a new leader may come this much later than promised.
const SLACK: Duration = Duration::from_secs(10);

/// The events of all candidates.
type Said = watch::Sender<Vec<Event>>;

fn candidate(setting: &Setting, name: &LockName, said: &Said) -> (u32, Child) {
    let mut child = Child::start(setting, name, setting.lease(), Job::Lead);
    let said = said.clone();
    child.forward_lines(move |line| {
        // A killed child may have printed half a line.
        if let Ok(event) = serde_json::from_str(&line) {
            said.send_modify(|events| events.push(event));
        }
    });
    (child.id(), child)
}

/// Waits for a leader with a term above `above`; returns its process and its term.
async fn next_leader(
    said: &mut watch::Receiver<Vec<Event>>,
    above: FencingToken,
    limit: Duration,
) -> (u32, FencingToken) {
    let newer = |event: &Event| match event.what {
        What::Acquired { token, .. } if token > above => Some((event.op.process, token)),
        _ => None,
    };
    let found = async {
        let events = said.wait_for(|events| events.iter().any(|event| newer(event).is_some()));
        let events = events.await.expect("the test lives");
        events.iter().rev().find_map(newer).expect("it was there")
    };
    let found = tokio::time::timeout(limit, found).await;
    found.unwrap_or_else(|_| {
        panic!("within {limit:?} there was no new leader after the term {above}")
    })
}

async fn an_election_outlives_its_leaders(setting: &Setting) {
    let faults = FAULTS[usize::from(std::env::var_os("LEASEHOLD_SOAK").is_some())];
    let (name, said) = (setting.name("chief"), Said::default());
    let mut heard = said.subscribe();
    let mut candidates: BTreeMap<u32, Child> =
        (0..CANDIDATES).map(|_| candidate(setting, &name, &said)).collect();
    let client = setting.client().await;
    let promised = setting.promised();
    let limit = setting.lease()
        + promised.lease_step
        + promised.expiry_slack
        + promised.longest_poll
        + SLACK;
    let start = Duration::from_secs(60);
    let (mut leader, mut term) = next_leader(&mut heard, FencingToken::ZERO, start).await;
    let mut vacant = Vec::new();
    for fault in 0..faults {
        let hit = candidates.remove(&leader).expect("a candidate leads");
        let paused = if fault % 2 == 0 || !PAUSES {
            hit.kill().await;
            None
        } else {
            hit.pause(setting, &client).await;
            Some(hit)
        };
        let began = Instant::now();
        let next = loop {
            let next = next_leader(&mut heard, term, limit).await;
            if next.0 != leader {
                break next;
            }
            // A later term of this leader, from before it was hit.
            term = next.1;
        };
        vacant.push(began.elapsed());
        match paused {
            Some(child) => {
                child.signal(Signal::CONT);
                candidates.insert(leader, child);
            }
            None => {
                candidates.extend([candidate(setting, &name, &said)]);
            }
        }
        (leader, term) = next;
    }
    drop(candidates);
    let history = History::new(heard.borrow().clone());
    let rules = [Rule::WellFormed, Rule::Exclusion, Rule::Tokens, Rule::Resurrection];
    assert_clean(&history, &rules);
    let terms = history.events().iter().filter(|it| matches!(it.what, What::Acquired { .. }));
    vacant.sort();
    println!(
        "    {}: {faults} leaders were killed or paused, {} terms; without a leader for {:.0?}, at most {:.0?}, with a lease of {:.0?}",
        setting.harness().name(),
        terms.count(),
        vacant[vacant.len() / 2],
        vacant[vacant.len() - 1],
        setting.lease(),
    );
}
