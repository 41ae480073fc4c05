//! `check`: measures a store, and shows what it promises.

use std::sync::Arc;
use std::time::Duration;

use humantime::format_duration;
use leasehold::{FencingToken, Guarantees, LockClient, Promise};
use serde_json::json;

use crate::args::Output;
use crate::chosen_store::{ChosenStore, close};
use crate::exit::{Failure, NOT_PROMISED};
use crate::json;
use crate::show::{self, print};

pub(super) async fn check(place: &ChosenStore, output: Output) -> Result<u8, Failure> {
    let store = place.open().await?;
    let checked = LockClient::new(Arc::clone(&store)).check().await;
    close(&*store).await;
    let checked = checked.map_err(|error| Failure::of(&error))?;
    let (clock, highest) = (checked.clock_difference_micros, checked.highest_token);
    let (guarantees, warnings) = (&checked.guarantees, checked.warnings());
    let quarantine = checked.quarantine.as_ref();
    let grants_in = quarantine.map_or(Duration::ZERO, |it| it.remaining);
    let micros = u64::try_from(checked.round_trip.as_micros()).unwrap_or(u64::MAX);
    let code = print(&if output.json {
        json::pretty(&json!({
            "store": place.url().to_string(),
            "backend": store.kind(),
            "round_trip_micros": micros,
            "clock_difference_micros": clock,
            "highest_token": highest,
            "grants_in": grants_in,
            "tokens_used_up": highest == Some(FencingToken::MAX),
            "guarantees": **guarantees,
            "warnings": warnings,
        }))?
    } else {
        format!(
            "store         {}\n{}{}{}{}{}{}",
            place.url(),
            lines(guarantees),
            format_args!("grants        {}\n", show::grants(quarantine)),
            format_args!("round trip    {:.3} ms\n", micros as f64 / 1000.0),
            clock_line(clock),
            highest.map(|token| highest_line(store.kind(), token)).unwrap_or_default(),
            warnings
                .iter()
                .map(|text| format!("warning       {}\n", show::escaped(text)))
                .collect::<String>()
        )
    })?;
    Ok(if guarantees.exclusion.holds() { code } else { NOT_PROMISED })
}

fn clock_line(micros: Option<i64>) -> String {
    let text = match micros {
        None => "this machine's own".to_owned(),
        Some(micros) => {
            let side = if micros < 0 { "behind" } else { "ahead of" };
            format!("{:.3} ms {side} this machine's", micros.unsigned_abs() as f64 / 1000.0)
        }
    };
    format!("store clock   {text}\n")
}

fn highest_line(kind: &str, highest: FencingToken) -> String {
    if highest != FencingToken::MAX {
        return format!("highest token {highest}\n");
    }
    let helps = match kind {
        "foreign" => {
            "in Redis 'leasehold init --reset-tokens' sets them back; in ShedLock's table 'leasehold release --force NAME' does for one name"
        }
        "redis" | "redlock" | "postgres" => {
            "'leasehold init --reset-tokens' sets them back; see 'leasehold init --help'"
        }
        "etcd" => "'leasehold init --restored' starts them anew; see 'leasehold init --help'",
        "mysql" | "sqlite" => {
            "stop all clients for one longest lease, drop the tables (or remove a SQLite file that has no others), and run \
             'leasehold init'; or, if it is one name's, 'leasehold release --force NAME'"
        }
        _ => "see what helps in the store that it is in",
    };
    format!("highest token at the limit: tokens are used up, and nothing is granted. {helps}\n")
}

/// The assumptions of a grant at once are among those of exclusion.
fn first_use(promise: &Promise) -> String {
    match promise {
        Promise::Holds { .. } => {
            "granted from a longest lease after the server's start on, if nobody has used the store since then"
                .to_owned()
        }
        Promise::Withheld { why } => show::escaped(why),
    }
}

fn lines(guarantees: &Guarantees) -> String {
    let yes = |holds: bool| if holds { "yes" } else { "no" };
    let rows = [
        ("exclusion", promised(&guarantees.exclusion)),
        ("shared", promised(&guarantees.shared)),
        ("tokens", format!("never go back: {}", promised(&guarantees.tokens))),
        ("records", promised(&guarantees.record)),
        ("hand-over", yes(guarantees.hand_over).to_owned()),
        (
            "leases",
            format!(
                "{} to {}, in steps of {}",
                format_duration(guarantees.shortest_lease),
                format_duration(guarantees.longest_lease),
                format_duration(guarantees.lease_step)
            ),
        ),
        ("quarantine", guarantees.quarantine.to_string()),
        (
            "after a crash",
            format!(
                "the lock is free {}after its lease and at most {}{}",
                if guarantees.expiry_is_observed {
                    "to a client that looks without a pause, "
                } else {
                    ""
                },
                format_duration(guarantees.expiry_slack),
                guarantees.expiries_per_second.map_or_else(String::new, |most| format!(
                    ", and a second more for each {most} leases that end together"
                ))
            ),
        ),
        ("connection", guarantees.connection.to_string()),
        ("fair queue", yes(guarantees.fair).to_owned()),
        (
            "waiters",
            if guarantees.push {
                let poll = format_duration(guarantees.longest_poll);
                format!("are woken by the release, and also ask every {poll}")
            } else {
                format!("ask again, at least every {}", format_duration(guarantees.longest_poll))
            },
        ),
    ];
    let version =
        guarantees.record_version.map(|version| ("data format", format!("version {version}")));
    let first_use = guarantees.first_use.as_ref().map(|first| ("first use", first_use(first)));
    let rows = rows.into_iter().chain(first_use).chain(version);
    rows.map(|(what, text)| format!("{what:<13} {text}\n")).collect()
}

/// A promise, with one assumption a line. The texts may contain answers of a server.
fn promised(promise: &Promise) -> String {
    match promise {
        Promise::Holds { assuming } if !assuming.is_empty() => {
            let each =
                assuming.iter().map(|it| format!("\n{:<13} - {}", "", show::escaped(&it.text)));
            format!("holds, assuming that{}", each.collect::<String>())
        }
        other => show::escaped(&other.to_string()),
    }
}
