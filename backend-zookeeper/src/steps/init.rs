//! Creates the settings, or changes them.

use std::time::Duration;

use lock_core::{Error, ErrorKind, Init, StoreSettings};

use crate::{
    keys::settings::{Settings, check_longest},
    store::Store,
    tunables::TRIES,
};

pub(crate) async fn init(store: &Store, init: &Init) -> Result<StoreSettings, Error> {
    if init.restored && init.first_use {
        let message = "`restored` says that locks may be held, and `first_use` that none is; give \
                       one of the two";
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    if let Some(longest) = init.longest_lease {
        check_longest(longest, store.sessions.shortest())?;
        // The servers must give a session of its length.
        store.sessions.for_lease(longest).await?;
    }
    let session = store.session().await?;
    for _ in 0..TRIES {
        let (before, version) = store.enter_present_epoch(&session).await?;
        let now = store.sessions.clock.latest();
        let after = changed(&before, init, now);
        if after == before || store.put_settings(&session, &after, version).await? {
            store.read_settings(&session).await?;
            let mut settings = StoreSettings::new(after.longest_lease(), Some(after.quarantine));
            settings.grants_in = after.quarantined(now).map_or(Duration::ZERO, |it| it.remaining);
            return Ok(settings);
        }
    }
    Err(Error::new(ErrorKind::Unavailable, "others changed the settings again and again"))
}

/// The settings after an `init`.
fn changed(before: &Settings, init: &Init, now: u64) -> Settings {
    let mut after = before.clone();
    after.quarantine = init.quarantine.unwrap_or(before.quarantine);
    if let Some(longest) = init.longest_lease {
        after.longest_lease_millis = longest.as_millis() as u64;
    }
    let longest_held = before.longest_held_millis.max(after.longest_lease_millis);
    after.longest_held_millis = match init.first_use {
        true => after.longest_lease_millis,
        false => longest_held,
    };
    if init.first_use {
        after.open_all();
    } else if init.restored {
        after.hold_back(now, after.longest_held(), "an operator has reported a restore");
    } else if after.quarantine && !before.quarantine {
        after.hold_back(now, after.longest_held(), "the quarantine was turned on");
    } else if after.longest_lease_millis != before.longest_lease_millis {
        let why = "the longest lease was changed, and the old one is waited out";
        after.hold_back(now, before.longest_lease(), why);
    }
    if init.restored {
        after.records_lost(now);
    }
    if init.records_complete {
        after.records_complete();
    }
    after
}
