//! `init`, `inspect`, `list` and `release`: the actions for operators.

use std::time::Duration;

use leasehold::backend::Listing;
use leasehold::{
    Backend, Error, LockName, LockState, OwnerId, QuarantineUse, ReleaseOutcome, StoreSettings,
};
use serde_json::json;

use crate::args::{Init, Inspect, Output, Release, Switch};
use crate::chosen_store::{ChosenStore, close};
use crate::exit::{self, Failure};
use crate::json;
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
        .with_reset_tokens(args.reset_tokens)
        .with_records_complete(args.records_complete);
    let (store, wanted) = place.open_for_init(wanted).await?;
    announce_wait(&*store, &wanted);
    let settings = store.init(&wanted).await;
    let mut exclusion = store.guarantees().exclusion.clone();
    close(&*store).await;
    let settings = settings.map_err(|error| Failure::of(&error))?;
    // As a client with this URL sees it. It is refused if an option has set something else.
    let mut held_back = None;
    if let Ok(store) = place.open().await {
        exclusion = store.guarantees().exclusion.clone();
        held_back = store.quarantine().await.ok().flatten();
        close(&*store).await;
    }
    // With these settings the store may not promise exclusion.
    let warning = (!exclusion.holds()).then(|| exclusion.to_string());
    print(&if args.output.json {
        json::pretty(&Shown { settings: &settings, warning: warning.as_deref() })?
    } else {
        let quarantine = match settings.quarantine {
            Some(true) => "on",
            Some(false) => "off",
            None => "not needed by this store",
        };
        let grants = match (settings.grants_in, &held_back) {
            (Duration::ZERO, _) => "now".to_owned(),
            (span, None) => format!("in {}", show::rounded(span)),
            (span, Some(held_back)) => {
                format!("in {}: {}", show::rounded(span), show::why_quarantined(held_back))
            }
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

/// Says what a change of the longest lease costs, before it is made.
fn announce_wait(store: &dyn Backend, wanted: &leasehold::Init) {
    let guarantees = store.guarantees();
    let (old, none) = (guarantees.longest_lease, guarantees.quarantine == QuarantineUse::NotNeeded);
    let Some(new) = wanted.longest_lease.filter(|new| *new != old && !wanted.first_use && !none)
    else {
        return;
    };
    let [shown_old, shown_new, longer] = [old, new, old.max(new)].map(humantime::format_duration);
    exit::notify(format_args!(
        "the longest lease becomes {shown_new} (it is {shown_old}): the store may grant nothing for {longer}, and for longer \
         with sentinels or in a cluster, until every old lease is over; held locks are renewed meanwhile. Where nobody holds a lock, --first-use \
         makes this wait unnecessary"
    ));
}

pub(super) async fn inspect(place: &ChosenStore, args: &Inspect) -> Result<u8, Failure> {
    let store = place.open().await?;
    let state = store.inspect(&args.name).await;
    let quarantine = store.quarantine().await;
    close(&*store).await;
    let (state, quarantine) = match (state, quarantine) {
        (Ok(state), Ok(quarantine)) => (state, quarantine),
        (Err(error), _) | (_, Err(error)) => return Err(Failure::of(&error)),
    };
    // What holds a free lock back.
    let free = state.as_ref().is_none_or(|state| state.holder.is_none());
    let grants_in = quarantine.as_ref().map_or(Duration::ZERO, |it| it.remaining);
    print(&if args.output.json {
        let mut shown = match state {
            Some(state) => json!(state),
            None => json!({
                "name": args.name, "holder": null, "token": null, "kept": false, "readers": null,
                "waiting": null, "unreadable": false
            }),
        };
        shown["grants_in"] = json!(grants_in);
        json::pretty(&shown)?
    } else {
        let state = match state {
            Some(state) => show::lock(&state),
            None => format!("{}\n  free\n", show::escaped(args.name.as_str())),
        };
        let held_back = quarantine.filter(|_| free).map(|quarantine| {
            format!(
                "  grants     {}: the store is in quarantine, {}\n",
                show::grants(Some(&quarantine)),
                show::why_quarantined(&quarantine)
            )
        });
        state + &held_back.unwrap_or_default()
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
    print(&if output.json { json::pretty(&locks)? } else { show::table(&locks) })
}

async fn all(store: &dyn Backend) -> Result<Vec<LockState>, Error> {
    let (mut locks, mut listing, mut goes_on) = (Vec::new(), Listing::new(), true);
    while goes_on {
        let page = store.list(listing.cursor()).await?;
        goes_on = listing.goes_on(&page)?;
        locks.extend(page.locks);
    }
    locks.retain(is_lock);
    Ok(locks)
}

/// Whether it is a lock, and not the record that a migration finds for clients of another library.
pub(super) fn is_lock(state: &LockState) -> bool {
    let name = state.name.as_str();
    let foreign = state.holder.as_ref().is_some_and(|holder| holder.owner == OwnerId::FOREIGN);
    !(foreign && name.starts_with("leasehold migration only "))
}

pub(super) async fn release(
    place: &ChosenStore,
    lock: &LockName,
    args: &Release,
) -> Result<u8, Failure> {
    let store = place.open().await?;
    // Only to show the holder. A lock that cannot be read must be freed, too.
    let before = store.inspect(lock).await.ok().flatten();
    let outcome = match args.token {
        None => store.force_release(lock).await,
        Some(token) => store.force_release_if(lock, token).await,
    };
    let after = store.inspect(lock).await.ok().flatten();
    close(&*store).await;
    let released = outcome.map_err(|error| Failure::of(&error))? == ReleaseOutcome::Released;
    if let Some(token) = args.token.filter(|_| !released) {
        let held = after.and_then(|state| Some((state.holder?, state.token)));
        let who = held.map_or_else(
            || "it is free".to_owned(),
            |(holder, now)| format!("token {now}, {}", show::holder(&holder)),
        );
        let name = show::escaped(lock.as_str());
        return Err(Failure::busy(
            exit::NOT_ACQUIRED,
            format_args!("{name} is not held with token {token}, and was left alone: {who}"),
        ));
    }
    let holder = before.and_then(|state| state.holder).filter(|_| released);
    print(&if args.output.json {
        json::pretty(&json!({ "name": lock, "released": released, "holder": holder }))?
    } else {
        let name = show::escaped(lock.as_str());
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
                if holder.owner == OwnerId::FOREIGN {
                    return print(&format!("{name}: taken from {label}\n"));
                }
                format!("{name}: taken from {label} (owner {})\n", holder.owner)
            }
            (true, None) => format!("{name}: taken away\n"),
            (false, _) => format!("{name}: nobody held it\n"),
        }
    })
}
