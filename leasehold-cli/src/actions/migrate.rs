//! `migrate`: shows the phase of each process in a move between two stores, and the next step.

use std::fmt::Write as _;

use leasehold::migration::{Direction, Fleet, Member, Phase, Step};
use serde_json::json;

use crate::args::{Migrate, MigrateAction};
use crate::chosen_store::{ChosenStore, close};
use crate::exit::{Failure, NOT_ACQUIRED};
use crate::json;
use crate::show::{self, print};

pub(super) async fn migrate(args: &Migrate) -> Result<u8, Failure> {
    let places = [
        ChosenStore::of(args.from.as_deref(), args.from_file.as_deref())?,
        ChosenStore::of(args.to.as_deref(), args.to_file.as_deref())?,
    ];
    // The errors of a store do not say which of the two it is.
    let side = |side: &str, failure: Failure| {
        Failure::new(failure.code, format_args!("{side}: {failure}"))
    };
    let old = places[0].open().await.map_err(|failure| side("FROM", failure))?;
    let new = places[1].open().await.map_err(|failure| side("TO", failure))?;
    let stores = [old, new];
    let fleet = Fleet::survey(&*stores[0], &*stores[1]).await;
    let shared = [stores[0].kind(), stores[1].kind()].map(|kind| kind == "foreign");
    for store in &stores {
        close(&**store).await;
    }
    let fleet = fleet.map_err(|error| Failure::of(&error))?;
    match args.action {
        MigrateAction::Status => status(&fleet, shared, args),
        MigrateAction::Next => step(&fleet, shared, Direction::Forward, args),
        MigrateAction::Back => step(&fleet, shared, Direction::Back, args),
    }
}

fn status(fleet: &Fleet, shared: [bool; 2], args: &Migrate) -> Result<u8, Failure> {
    let next_step = |direction| match fleet.next(direction) {
        Ok(step) => words(fleet, shared, step, direction),
        Err(refusal) => format!("not yet: {refusal}"),
    };
    let (next, back) = (next_step(Direction::Forward), next_step(Direction::Back));
    print(&if args.output.json {
        json::pretty(&json!({ "members": fleet.members, "next": next, "back": back }))?
    } else {
        format!("{}next  {next}\nback  {back}\n", table(&fleet.members))
    })
}

fn step(
    fleet: &Fleet,
    shared: [bool; 2],
    direction: Direction,
    args: &Migrate,
) -> Result<u8, Failure> {
    match fleet.next(direction) {
        Ok(step) if args.output.json => print(&json::pretty(&json!({
            "step": step, "do": words(fleet, shared, step, direction)
        }))?),
        Ok(step) => print(&format!("{}\n", words(fleet, shared, step, direction))),
        Err(refusal) => Err(Failure::busy(NOT_ACQUIRED, refusal)),
    }
}

/// The operator's next step, in words. It does not repeat URLs, because they may contain passwords.
///
/// `shared`: whether FROM and TO have the locks of another library.
fn words(fleet: &Fleet, shared: [bool; 2], step: Step, direction: Direction) -> String {
    let step = match (step, direction) {
        (Step::Enter(phase), _) => {
            format!("restart each process with migrate:{phase}?from=FROM&to=TO")
        }
        (Step::Leave, Direction::Forward) => "restart each process with the URL TO".to_owned(),
        (Step::Leave, Direction::Back) => "restart each process with the URL FROM".to_owned(),
    };
    // Whether the store that the processes leave is shared with another library.
    let left = match direction {
        Direction::Forward => shared[0],
        Direction::Back => shared[1],
    };
    let leaves = left && fleet.members.iter().all(|member| member.phase == Some(Phase::Both));
    if !fleet.members.is_empty() {
        return if leaves { format!("{step}; {SILENCE}") } else { step };
    }
    // The end looks like the beginning. If an operator took the first step at the end, a lock could
    // have two holders.
    let (begin, end) = match direction {
        Direction::Forward => ("FROM", "TO"),
        Direction::Back => ("TO", "FROM"),
    };
    format!(
        "no process is seen: if all have the URL {begin}, {step}; if all have {end}, it is done"
    )
}

/// A client of another library keeps no record. If it locked in the last minutes, it is shown as a
/// process; see docs/migration.md.
const SILENCE: &str = "no client of the other library was seen lately, which proves nothing: first make sure that none is left";

fn table(members: &[Member]) -> String {
    if members.is_empty() {
        return String::new();
    }
    let mut text = format!("{:<6} {:<12} PROCESS\n", "PHASE", "RECORD ENDS");
    for member in members {
        let phase = member.phase.as_ref().map_or_else(|| "?".into(), Phase::to_string);
        let left = show::rounded(member.remaining);
        let _ = writeln!(text, "{phase:<6} {left:<12} {}", show::quoted(&member.label));
    }
    text
}
