//! `schema` and `check`: what a store is like.

use humantime::format_duration;
use leasehold::{Error, FencingToken, Guarantees, Link, LockName, QuarantineUse, StoreUrl};
use serde_json::json;

use crate::args::Output;
use crate::exit::Failure;
use crate::place::{Place, close};
use crate::show::{self, print};

pub(super) fn schema(url: &StoreUrl, output: Output) -> Result<u8, Failure> {
    let sql = leasehold::schema(url).map_err(|error| Failure::of(&error))?;
    print(&if output.json {
        show::json(&json!({ "sql": sql }))?
    } else {
        format!("{}\n", sql.trim_end())
    })
}

pub(super) async fn check(place: &Place, output: Output) -> Result<u8, Failure> {
    let store = place.open().await?;
    let asked = async {
        // Any name: a store that does not know it yet may lack its tables.
        store.inspect(&LockName::new("leasehold check")?).await?;
        Ok((store.clock_difference_micros().await?, store.highest_token().await?))
    };
    let asked: Result<_, Error> = asked.await;
    let guarantees = store.guarantees();
    close(&*store).await;
    let (clock, highest) = asked.map_err(|error| Failure::of(&error))?;
    print(&if output.json {
        show::json(&json!({
            "store": place.url().to_string(),
            "backend": store.kind(),
            "clock_difference_micros": clock,
            "highest_token": highest,
            "tokens_used_up": highest == Some(FencingToken::MAX),
            "guarantees": *guarantees,
        }))?
    } else {
        format!(
            "store         {}\n{}{}{}",
            place.url(),
            lines(&guarantees),
            clock_line(clock),
            highest.map(highest_line).unwrap_or_default()
        )
    })
}

fn clock_line(micros: Option<i64>) -> String {
    let told = match micros {
        None => "this machine's own".to_owned(),
        Some(micros) => {
            let side = if micros < 0 { "behind" } else { "ahead of" };
            format!("{:.3} ms {side} this machine's", micros.unsigned_abs() as f64 / 1000.0)
        }
    };
    format!("store clock   {told}\n")
}

fn highest_line(highest: FencingToken) -> String {
    let told = if highest == FencingToken::MAX {
        "tokens are used up: names are granted no more; see 'leasehold init --help', --reset-tokens"
            .to_owned()
    } else {
        highest.to_string()
    };
    format!("highest token {told}\n")
}

fn link(link: Link) -> &'static str {
    match link {
        Link::Plain => "not encrypted, as far as this side demands",
        Link::Unverified => "encrypted; that the other side is this host is not checked",
        Link::Verified => "encrypted, with the host's certificate checked",
        Link::Local => "does not leave this machine",
    }
}

fn lines(guarantees: &Guarantees) -> String {
    let yes = |holds: bool| if holds { "yes" } else { "no" };
    let quarantine = match guarantees.quarantine {
        QuarantineUse::NotNeeded => "not needed",
        QuarantineUse::On => "on: grants nothing for one longest lease after a loss of data",
        QuarantineUse::Off => "off: a loss of data may give a lock to two holders",
        QuarantineUse::Unavailable => "none",
    };
    let rows = [
        ("exclusion", guarantees.exclusion.to_string()),
        ("tokens", format!("never go back: {}", guarantees.tokens)),
        (
            "leases",
            format!(
                "{} to {}, in steps of {}",
                format_duration(guarantees.shortest_lease),
                format_duration(guarantees.longest_lease),
                format_duration(guarantees.lease_step)
            ),
        ),
        ("quarantine", quarantine.to_owned()),
        (
            "after a crash",
            format!(
                "the lock is free within its lease and {}",
                format_duration(guarantees.expiry_slack)
            ),
        ),
        ("connection", link(guarantees.link).to_owned()),
        ("fair queue", yes(guarantees.fair).to_owned()),
        (
            "waiters",
            if guarantees.push {
                let poll = format_duration(guarantees.longest_poll);
                format!("are woken by the release, and ask every {poll} besides")
            } else {
                format!("ask again, at least every {}", format_duration(guarantees.longest_poll))
            },
        ),
    ];
    rows.iter().map(|(what, text)| format!("{what:<13} {text}\n")).collect()
}
