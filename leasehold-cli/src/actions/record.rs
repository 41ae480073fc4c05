//! `record`: shows the record of a name, which is mostly its last run.

use leasehold::{LastRun, LockClient, RecordRead, StoreTime};
use serde_json::{Value, json};

use crate::args::Record;
use crate::chosen_store::{ChosenStore, close};
use crate::exit::Failure;
use crate::show::{self, print};

pub(super) async fn record(place: &ChosenStore, args: &Record) -> Result<u8, Failure> {
    let store = place.open().await?;
    let read = LockClient::new(store.clone()).read_record(&args.name).await;
    close(&*store).await;
    let read = read.map_err(|error| Failure::of(&error))?;
    let name = args.name.as_str();
    print(&if args.output.json {
        crate::json::pretty(&as_json(name, &read))?
    } else {
        let rows = rows(&read).into_iter();
        let rows = rows.map(|(what, text)| format!("  {what:<10} {text}\n"));
        format!("{}\n{}", show::escaped(name), rows.collect::<String>())
    })
}

/// The run in a record, if it is one.
fn run_in(read: &RecordRead) -> Option<LastRun> {
    read.record.as_ref().and_then(|record| LastRun::of(record).ok())
}

fn rows(read: &RecordRead) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    match (&read.record, run_in(read)) {
        (Some(_), Some(run)) => {
            rows.push(("last run", run.state.as_str().to_owned()));
            rows.push(("began", run.began.to_string()));
            rows.extend(run.ended.map(|ended| ("ended", ended.to_string())));
            rows.extend(run.exit_code.map(|code| ("exit code", code.to_string())));
            rows.push(("on", show::quoted(&run.label)));
            rows.push(("attempt", format!("{} of the round of {}", run.attempt, run.round)));
            rows.push(("token", run.token.to_string()));
        }
        (Some(record), None) => {
            let text = show::escaped(&String::from_utf8_lossy(&record.value));
            rows.push(("value", format!("{text} ({} bytes)", record.value.len())));
            rows.push(("written", record.written.to_string()));
            rows.push(("token", record.token.to_string()));
        }
        (None, _) => rows.push(("record", "none".to_owned())),
    }
    if read.complete_since > StoreTime::EVER {
        let since = read.complete_since;
        rows.push(("complete", format!("since {since}: what was written before may be lost")));
    }
    rows
}

fn as_json(name: &str, read: &RecordRead) -> Value {
    let time = |at: StoreTime| at.to_string();
    let run = run_in(read).map(|run| {
        json!({
            "state": run.state.as_str(),
            "round": time(run.round),
            "attempt": run.attempt,
            "began": time(run.began),
            "ended": run.ended.map(time),
            "exit_code": run.exit_code,
            "label": run.label,
        })
    });
    let record = read.record.as_ref().map(|record| {
        json!({
            "value": str::from_utf8(&record.value).ok(),
            "bytes": record.value.len(),
            "token": record.token,
            "written": time(record.written),
        })
    });
    let complete = (read.complete_since > StoreTime::EVER).then(|| time(read.complete_since));
    json!({
        "name": name,
        "last_run": run,
        "record": record,
        "now": time(read.now),
        "complete_since": complete,
    })
}
