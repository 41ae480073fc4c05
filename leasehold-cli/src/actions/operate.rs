//! `init`, `inspect`, `list` and `release`: the actions for operators.

use leasehold::backend::Listing;
use leasehold::{Backend, Error, LockState, OwnerId, ReleaseOutcome, StoreSettings};
use serde_json::json;

use crate::args::{Init, Inspect, Output, Release, Switch};
use crate::chosen_store::{ChosenStore, close};
use crate::exit::Failure;
use crate::show::{self, print};

/// The output of `init` as JSON.
#[derive(serde::Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    settings: &'a StoreSettings,
    /// Why exclusion is not promised, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<&'a str>,
}

pub(super) async fn init(place: &ChosenStore, args: &Init) -> Result<u8, Failure> {
    let wanted = leasehold::Init::new()
        .with_first_use(args.first_use)
        .with_restored(args.restored)
        .with_longest_lease(args.longest_lease)
        .with_quarantine(args.quarantine.map(|switch| switch == Switch::On))
        .with_reset_tokens(args.reset_tokens);
    let store = place.open().await?;
    let settings = store.init(&wanted).await;
    let exclusion = store.guarantees().exclusion.clone();
    close(&*store).await;
    let settings = settings.map_err(|error| Failure::of(&error))?;
    // With these settings the store may not promise exclusion.
    let warning = (!exclusion.holds()).then(|| exclusion.to_string());
    print(&if args.output.json {
        show::json(&Shown { settings: &settings, warning: warning.as_deref() })?
    } else {
        let quarantine = match settings.quarantine {
            Some(true) => "on",
            Some(false) => "off",
            None => "not needed by this store",
        };
        let grants = if settings.grants_in.is_zero() {
            "now".to_owned()
        } else {
            format!("in {}", show::rounded(settings.grants_in))
        };
        let longest = humantime::format_duration(settings.longest_lease);
        // The text may contain an answer of a server.
        let warning = warning.map(|text| format!("exclusion      {}\n", show::escaped(&text)));
        let warning = warning.unwrap_or_default();
        format!(
            "longest lease  {longest}\nquarantine     {quarantine}\ngrants         {grants}\n{warning}"
        )
    })
}

pub(super) async fn inspect(place: &ChosenStore, args: &Inspect) -> Result<u8, Failure> {
    let store = place.open().await?;
    let state = store.inspect(&args.name).await;
    close(&*store).await;
    let state = state.map_err(|error| Failure::of(&error))?;
    print(&match (state, args.output.json) {
        (Some(state), true) => show::json(&state)?,
        (None, true) => show::json(&json!({
            "name": args.name, "holder": null, "token": null, "kept": false, "readers": null,
            "waiting": null, "unreadable": false
        }))?,
        (Some(state), false) => show::lock(&state),
        (None, false) => format!("{}\n  free\n", show::escaped(args.name.as_str())),
    })
}

pub(super) async fn list(place: &ChosenStore, output: Output) -> Result<u8, Failure> {
    let store = place.open().await?;
    let locks = all(&*store).await;
    close(&*store).await;
    let mut locks = locks.map_err(|error| Failure::of(&error))?;
    // A name that moved between two pages of the listing is on both.
    locks.sort_by(|a, b| a.name.cmp(&b.name));
    locks.dedup_by(|a, b| a.name == b.name);
    print(&if output.json { show::json(&locks)? } else { show::table(&locks) })
}

async fn all(store: &dyn Backend) -> Result<Vec<LockState>, Error> {
    let (mut locks, mut listing, mut goes_on) = (Vec::new(), Listing::new(), true);
    while goes_on {
        let page = store.list(listing.cursor()).await?;
        goes_on = listing.goes_on(&page)?;
        locks.extend(page.locks);
    }
    Ok(locks)
}

pub(super) async fn release(place: &ChosenStore, args: &Release) -> Result<u8, Failure> {
    let store = place.open().await?;
    // Only to show the holder. A lock that cannot be read must be freed, too.
    let before = store.inspect(&args.name).await.ok().flatten();
    let outcome = store.force_release(&args.name).await;
    close(&*store).await;
    let released = outcome.map_err(|error| Failure::of(&error))? == ReleaseOutcome::Released;
    let holder = before.and_then(|state| state.holder).filter(|_| released);
    print(&if args.output.json {
        show::json(&json!({ "name": args.name, "released": released, "holder": holder }))?
    } else {
        let name = show::escaped(args.name.as_str());
        match (released, holder) {
            (true, Some(holder)) if holder.is_unreadable() => {
                format!("{name}: {} was removed\n", holder.label)
            }
            (true, Some(holder)) => {
                let label = show::quoted(&holder.label);
                if holder.owner == OwnerId::READERS {
                    return print(&format!(
                        "{name}: taken from all readers, of whom {label} came last\n"
                    ));
                }
                format!("{name}: taken from {label} (owner {})\n", holder.owner)
            }
            (true, None) => format!("{name}: taken away\n"),
            (false, _) => format!("{name}: nobody held it\n"),
        }
    })
}
