//! Runs the proof on stores that are broken on purpose: the cell of the guarantee that a flaw
//! breaks must say so.

use std::sync::Arc;

use conformance_tests::SetUpError;
use lock_core::{Backend, BoxFuture, Error, Init};
use measurements::Proof;
use servers::{Redis, RedisOptions, Server as _};
use verification::{
    mutants::{Flaw, flawed},
    proof::{
        Cell, Fault, Guarantee, InQuick, Reason, Report, StartedStore, SystemUnderTest, Withheld,
    },
    stores,
};

const MUTANTS: &[(Flaw, Fault, Guarantee)] = &[
    (Flaw::GrantsToAll, Fault::None, Guarantee::Exclusion),
    (Flaw::TokensStandStill, Fault::None, Guarantee::Tokens),
    (Flaw::ReleasesNothing, Fault::None, Guarantee::NothingLeft),
    (Flaw::HalvesTheLease, Fault::ClientPaused, Guarantee::Exclusion),
    (Flaw::KeepsNoQueue, Fault::None, Guarantee::Fair),
    (Flaw::WritesRecordsForAnybody, Fault::ClientPaused, Guarantee::Record),
    (Flaw::KeepsTheFormerOwner, Fault::None, Guarantee::HandOver),
    (Flaw::HandsOverTwice, Fault::None, Guarantee::HandOver),
];

/// `FLAW+URL`: the store at the URL, with that flaw in each client's own connection.
pub(crate) fn connect(url: String) -> BoxFuture<Result<Arc<dyn Backend>, Error>> {
    Box::pin(async move {
        let known = MUTANTS.iter().find_map(|(flaw, ..)| {
            url.strip_prefix(&format!("{flaw:?}+")).map(|url| (*flaw, url.to_owned()))
        });
        match known {
            Some((flaw, url)) => Ok(flawed(stores::connect(url).await?, flaw)),
            None => stores::connect(url).await,
        }
    })
}

async fn start(flaw: Flaw) -> Result<StartedStore, SetUpError> {
    // `KeepsNoQueue` needs a store that calls itself fair. `HalvesTheLease` needs one where a
    // paused client does not stop the others: in SQLite it may be paused in a write.
    if matches!(flaw, Flaw::KeepsNoQueue | Flaw::HalvesTheLease) {
        let server = Redis::start(RedisOptions::new()).await?;
        let url = format!("redis://{}?longest_lease=2s", server.address());
        let store = stores::connect(url.clone()).await?;
        store.init(&Init::new().with_first_use(true)).await?;
        let flawed = format!("{flaw:?}+{url}");
        return Ok(match flaw {
            // One client without queue entries among others with entries: it is surely passed
            // over. Among clients that all lack entries, only chance decides.
            Flaw::KeepsNoQueue => {
                StartedStore { heir: Some(flawed), ..StartedStore::of_clients(url, server) }
            }
            _ => StartedStore::of_clients(flawed, server),
        });
    }
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("locks.db");
    let url = format!("{flaw:?}+sqlite:{}?longest_lease=2s", path.display());
    Ok(StartedStore::of_clients(url, folder))
}

/// Checks that `leasehold-compare --proof` can read what the command writes with `--json`,
/// timelines included.
fn opens(reports: &[Report]) -> Result<(), String> {
    let text = serde_json::to_string(reports).map_err(|error| error.to_string())?;
    let read = serde_json::to_value(Proof::read(&text)?).map_err(|error| error.to_string())?;
    for (report, read) in reports.iter().zip(read.as_array().into_iter().flatten()) {
        for (fault, read) in
            report.faults.iter().zip(read["faults"].as_array().into_iter().flatten())
        {
            let (held, shown) = (fault.timeline.as_ref(), read["timeline"]["holds"].as_array());
            if held.map(|it| it.holds.len()) != shown.map(Vec::len) || held.is_none() {
                return Err(format!(
                    "{}, {}: {held:?} is read as {shown:?}",
                    report.store, fault.fault
                ));
            }
        }
    }
    Ok(())
}

pub(crate) fn subjects() -> Vec<SystemUnderTest> {
    let subject = |(flaw, fault, guarantee): &(Flaw, Fault, Guarantee)| {
        let flaw = *flaw;
        let withheld = Withheld { fault: *fault, guarantee: *guarantee, reason: Reason::Flaw };
        SystemUnderTest {
            name: format!("{flaw:?}"),
            faults: vec![(*fault, InQuick::Yes)],
            untried: Vec::new(),
            withheld: vec![withheld],
            start: Arc::new(move |_| Box::pin(start(flaw))),
        }
    };
    MUTANTS.iter().map(subject).collect()
}

/// Whether each flaw was caught, and `leasehold-compare` can show it.
pub(crate) fn are_caught(reports: &[Report]) -> bool {
    let survives = |report: &&Report| {
        let known = MUTANTS.iter().find(|(flaw, ..)| format!("{flaw:?}") == report.store);
        !known.is_some_and(|(.., guarantee)| {
            let cell = report.faults.first().and_then(|fault| fault.cells.get(guarantee));
            matches!(cell, Some(Cell::Violated | Cell::Broken))
        })
    };
    let survived: Vec<_> = reports.iter().filter(survives).map(|it| it.store.as_str()).collect();
    println!("{} mutants; not caught: {survived:?}", reports.len());
    let shown = opens(reports);
    if let Err(why) = &shown {
        println!("`leasehold-compare --proof` cannot show this: {why}");
    }
    survived.is_empty() && shown.is_ok()
}
