//! Connects to a store by its URL.

use std::sync::Arc;

use lock_core::{Backend, ClientOptions, Error, LockClient};

use crate::{StoreUrl, schemes};

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
    options.check()?;
    LockClient::with_options(open(url).await?, options)
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
    let open = url.row()?.opener()?.open;
    schemes::check_layout(&url)?;
    open(url).await
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
    (url.row()?.opener()?.schema)(&url)
}
