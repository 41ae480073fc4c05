//! Connects to a store by its URL.

use std::{sync::Arc, time::Duration};

use lock_core::{Backend, ClientOptions, Error, ErrorKind, Init, LockClient, SystemEnv, jittered};
use tokio::time::{Instant, timeout_at};

use crate::{StoreUrl, met, schemes};

/// The first pause between two attempts to connect. Each is twice as long as the one before, up to
/// the longest: a person who starts a store by hand should hardly notice it.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Connects to the store at `url`, with the default [`ClientOptions`].
///
/// Call it once when the program starts, not for each lock: keep the client, and clone it.
///
/// # Cancel safety
///
/// Dropping the future leaves nothing behind, except a store that is created at its first use.
///
/// # Errors
/// `InvalidInput` for a URL that no store understands, naming what is allowed; `Unsupported` if the
/// backend is not compiled in, naming the cargo feature to add; `Unavailable`, `Auth`, `Config` or
/// `Timeout` if the store cannot be opened. No message shows a password of the URL.
pub async fn connect<U>(url: U) -> Result<LockClient, Error>
where
    U: TryInto<StoreUrl>,
    U::Error: Into<Error>,
{
    connect_with(url, ClientOptions::default()).await
}

/// Connects to the store at `url`, with these options.
///
/// # Errors
/// As [`connect`]; `InvalidInput` for an invalid option, before it connects.
pub async fn connect_with<U>(url: U, options: ClientOptions) -> Result<LockClient, Error>
where
    U: TryInto<StoreUrl>,
    U::Error: Into<Error>,
{
    connect_within(url, options, Duration::ZERO).await
}

/// Opens the store at `url` as a backend, for [`LockClient::with_options`].
///
/// Most programs use [`connect`] instead. A client also has the calls for operators:
/// [`LockClient::inspect`], [`LockClient::list`] and [`LockClient::check`].
///
/// # Errors
/// As [`connect`].
pub async fn open<U>(url: U) -> Result<Arc<dyn Backend>, Error>
where
    U: TryInto<StoreUrl>,
    U::Error: Into<Error>,
{
    let url = url.try_into().map_err(Into::into)?;
    let (here, in_tokio) = (std::time::Instant::now(), Instant::now());
    match open_once(&url).await {
        // While tokio's clock is paused, a time limit is over as soon as a task waits for a server.
        Err(error)
            if error.is_retryable()
                && in_tokio.elapsed() > here.elapsed() + Duration::from_millis(500) =>
        {
            let message = "tokio's clock is paused, so no server can answer in time; with a paused \
                           clock use memory: or TestStore, and with a server do not pause it";
            Err(Error::new(ErrorKind::Config, message).with_source(error))
        }
        Err(error) => Err(met::explained(&url, error).await),
        opened => opened,
    }
}

async fn open_once(url: &StoreUrl) -> Result<Arc<dyn Backend>, Error> {
    let open = url.row()?.opener()?.open;
    let (url, _) = url.labelled()?;
    schemes::check_layout(&url)?;
    open(url).await
}

/// As [`connect_with`], but waits for a store that cannot be reached yet, for at most `wait`: for a
/// program that may start before its store.
///
/// What a retry cannot mend, such as a refused login, is an error at once. `Duration::ZERO` is a
/// single attempt, `Duration::MAX` waits for ever.
///
/// # Errors
/// As [`connect_with`]; if the wait is over, the error of the last attempt.
pub async fn connect_within<U>(
    url: U,
    options: ClientOptions,
    wait: Duration,
) -> Result<LockClient, Error>
where
    U: TryInto<StoreUrl>,
    U::Error: Into<Error>,
{
    options.check()?;
    let url = url.try_into().map_err(Into::into)?;
    // The URL is what an operator writes for one process.
    let options = match url.labelled()?.1 {
        Some(label) => options.with_label(label),
        None => options,
    };
    LockClient::with_options(open_within(url, wait).await?, options)
}

/// As [`open`], but waits for a store that cannot be reached yet, as [`connect_within`] does.
///
/// # Errors
/// As [`connect_within`].
pub async fn open_within<U>(url: U, wait: Duration) -> Result<Arc<dyn Backend>, Error>
where
    U: TryInto<StoreUrl>,
    U::Error: Into<Error>,
{
    let url = url.try_into().map_err(Into::into)?;
    if wait.is_zero() {
        return open(url).await;
    }
    // A wait that no clock can count lasts for ever.
    let end = Instant::now().checked_add(wait);
    let (mut first, mut pause) = (true, SHORTEST_PAUSE);
    loop {
        let opening = open_once(&url);
        let opened = match end {
            None => opening.await,
            Some(end) => timeout_at(end, opening).await.unwrap_or_else(|_| {
                let message = "the store did not answer before the end of the wait";
                Err(Error::new(ErrorKind::Timeout, message))
            }),
        };
        let mut error = match opened {
            Err(error) if error.is_retryable() => error,
            opened => return opened,
        };
        if first {
            // Once is enough: each question is a connection that the server may count as broken.
            error = met::explained(&url, error).await;
        }
        if !error.is_retryable() || end.is_some_and(|end| Instant::now() + pause >= end) {
            return Err(error);
        }
        if first {
            tracing::warn!(target: "leasehold", "the store cannot be reached yet, and is tried again: {error:#}");
        }
        tokio::time::sleep(jittered(&SystemEnv, pause)).await;
        (first, pause) = (false, (2 * pause).min(LONGEST_PAUSE));
    }
}

/// Opens the store at `url` to set it up: the longest lease and the quarantine in the URL are then
/// what `init` is to set, and not what the store must have. Returns `init` with them.
///
/// # Errors
/// As [`open`]; `InvalidInput` if the URL and `init` name different values.
pub async fn open_for_init<U>(url: U, mut init: Init) -> Result<(Arc<dyn Backend>, Init), Error>
where
    U: TryInto<StoreUrl>,
    U::Error: Into<Error>,
{
    let url = url.try_into().map_err(Into::into)?;
    // The phases of a migration have no such options; the URLs in it are those of two stores.
    if url.scheme() == "migrate" {
        return Ok((open(url).await?, init));
    }
    let (bare, longest) = url.split_off("longest_lease")?;
    let (bare, quarantine) = bare.split_off("quarantine")?;
    let refuse = |message: String| Error::new(ErrorKind::InvalidInput, message);
    if let Some(longest) = longest {
        let named = humantime::parse_duration(&longest).map_err(|_| {
            refuse("longest_lease in the URL is no duration; it must be such as 30s".to_owned())
        })?;
        let set = *init.longest_lease.get_or_insert(named);
        if set != named {
            let [named, set] = [named, set].map(humantime::format_duration);
            return Err(refuse(format!(
                "init would set the longest lease to {set}, and longest_lease in the URL is {named}; \
                 give one of the two, or the same"
            )));
        }
    }
    if let Some(word) = quarantine {
        let named = match word.as_str() {
            "on" => true,
            "off" => false,
            _ => return Err(refuse("quarantine in the URL must be on or off".to_owned())),
        };
        if *init.quarantine.get_or_insert(named) != named {
            return Err(refuse(format!(
                "quarantine in the URL is {word}, and init would set the other; give one of the two"
            )));
        }
    }
    Ok((open(bare).await?, init))
}

/// The SQL that creates the tables of the store at `url`, for your own schema migrations. It does
/// not connect.
///
/// # Errors
/// `Unsupported` for a store that is no SQL database; `InvalidInput` as [`connect`].
pub fn schema<U>(url: U) -> Result<String, Error>
where
    U: TryInto<StoreUrl>,
    U::Error: Into<Error>,
{
    let url = url.try_into().map_err(Into::into)?;
    (url.row()?.opener()?.schema)(&url.labelled()?.0)
}
