//! The URL schemes, and the function that opens each.
//!
//! To add a backend, add one line to the table below, one file beside this one, and a feature of
//! the same name in `Cargo.toml`.

use std::sync::Arc;

use lock_core::{Backend, BoxFuture, Error, ErrorKind};

use crate::StoreUrl;

schemes! {
    // Module and feature, URL schemes, how a URL looks.
    etcd "etcd": ["etcd"], "etcd://HOST:PORT,HOST:PORT";
    memory "memory": ["memory"], "memory:";
    migrate "migrate": ["migrate"], "migrate:PHASE?from=URL&to=URL";
    mysql "mysql": ["mysql", "mariadb"], "mysql://USER@HOST/DATABASE";
    object_store "object-store": ["s3", "gs", "az"], "s3://BUCKET/PREFIX";
    postgres "postgres": ["postgres", "postgresql"], "postgres://USER@HOST/DATABASE";
    redis "redis": [
        "redis", "rediss", "unix", "redis+unix", "redis+sentinel", "rediss+sentinel", "redis+cluster",
        "rediss+cluster"
    ], "redis://HOST:PORT";
    redlock "redlock": ["redlock", "redlocks"], "redlock://HOST:PORT,HOST:PORT,HOST:PORT";
    sqlite "sqlite": ["sqlite"], "sqlite:PATH";
    zookeeper "zookeeper": ["zookeeper"], "zookeeper://HOST:PORT,HOST:PORT/PREFIX";
}

/// One backend's row in the table.
pub(crate) struct Scheme {
    names: &'static [&'static str],
    feature: &'static str,
    looks: &'static str,
    /// `None` where the feature is off.
    opener: Option<Opener>,
}

/// The future that opens a store.
type Opening = BoxFuture<Result<Arc<dyn Backend>, Error>>;

/// What a backend's file provides.
#[derive(Clone, Copy)]
pub(crate) struct Opener {
    /// Connects to the store.
    pub(crate) open: fn(StoreUrl) -> Opening,
    /// The SQL that makes its tables, if it is that kind of store.
    pub(crate) schema: fn(&StoreUrl) -> Result<String, Error>,
}

macro_rules! schemes {
    ($($module:ident $feature:tt: $names:expr, $looks:expr;)*) => {
        $(#[cfg(feature = $feature)] pub(crate) mod $module;)*

        const SCHEMES: &[Scheme] = &[$(Scheme {
            names: &$names,
            feature: $feature,
            looks: $looks,
            #[cfg(feature = $feature)]
            opener: Some(Opener {
                open: |url| Box::pin($module::open(url)),
                schema: $module::schema,
            }),
            #[cfg(not(feature = $feature))]
            opener: None,
        }),*];
    };
}
use schemes;

/// The row of a scheme.
///
/// # Errors
/// `InvalidInput` where there is none.
pub(crate) fn find(name: &str) -> Result<&'static Scheme, Error> {
    let row = SCHEMES.iter().find(|row| row.names.contains(&name));
    let row = row.ok_or_else(|| {
        let message =
            format!("unknown scheme {name:?} in the store URL; it must be one of {}", allowed());
        Error::new(ErrorKind::InvalidInput, message)
    })?;
    row.opener()?;
    Ok(row)
}

impl Scheme {
    /// # Errors
    /// `Unsupported` where the feature is off, naming it.
    pub(crate) fn opener(&self) -> Result<Opener, Error> {
        self.opener.ok_or_else(|| {
            let feature = self.feature;
            let message = format!(
                "this build has no {feature} store: {}; allowed now are {}",
                how_to_add(feature),
                allowed()
            );
            Error::new(ErrorKind::Unsupported, message)
        })
    }
}

/// How to build with a feature: in a program of the user's, and for the command.
fn how_to_add(feature: &str) -> String {
    format!(
        "add the cargo feature {feature:?} of the package leasehold (cargo add leasehold --features \
         {feature}), or of the command (cargo install leasehold-cli --features {feature}, with the \
         features of all stores that you use)"
    )
}

/// Whether a URL is for the locks of another library.
fn names_layout(url: &StoreUrl) -> bool {
    let query = url.expose().split_once('?').map_or("", |(_, query)| query);
    query.split('&').any(|option| option.starts_with("layout="))
}

fn names_shedlock(url: &StoreUrl) -> bool {
    let query = url.expose().split_once('?').map_or("", |(_, query)| query);
    query.split('&').any(|option| option == "layout=shedlock")
}

/// Refuses a layout for a store that has no locks of other libraries.
///
/// # Errors
/// `Unsupported`, with the reason.
pub(crate) fn check_layout(url: &StoreUrl) -> Result<(), Error> {
    // The URL of a migration contains other URLs, which may have a layout.
    if !names_layout(url) || url.scheme() == "migrate" {
        return Ok(());
    }
    let why = match url.row()?.feature {
        // The backend itself says which topologies and layouts it knows.
        "redis" => return Ok(()),
        "redlock" => {
            "a lock of another library that only some nodes have cannot be told from one that is being taken"
        }
        "postgres" | "mysql" if names_shedlock(url) => return Ok(()),
        "postgres" | "mysql" => {
            "an advisory lock and GET_LOCK have no lease, so that a holder could not tell by its clock when it has lost \
             the lock; of tables that of ShedLock is known, layout=shedlock"
        }
        _ => "no layout of another library is known there",
    };
    let message = format!(
        "layout is refused for {}: {why}; it must be on one redis://HOST, or shedlock in \
         PostgreSQL or MySQL",
        url.scheme()
    );
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// Opens the locks of another library.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
async fn open_layout(url: StoreUrl) -> Result<Arc<dyn Backend>, Error> {
    #[cfg(feature = "foreign")]
    return backend_foreign::connect(url.expose()).await;
    #[cfg(not(feature = "foreign"))]
    Err(no_layouts(&url))
}

/// The SQL that makes the tables of the locks of another library.
#[cfg(any(feature = "mysql", feature = "postgres"))]
fn schema_of_layout(url: &StoreUrl) -> Result<String, Error> {
    #[cfg(feature = "foreign")]
    return backend_foreign::schema(url.expose());
    #[cfg(not(feature = "foreign"))]
    Err(no_layouts(url))
}

/// The error if this build has no locks of other libraries.
#[cfg(all(
    any(feature = "mysql", feature = "postgres", feature = "redis"),
    not(feature = "foreign")
))]
fn no_layouts(_: &StoreUrl) -> Error {
    let message =
        format!("this build has no layouts of other libraries: {}", how_to_add("foreign"));
    Error::new(ErrorKind::Unsupported, message)
}

/// The forms of all URLs that this build can open, such as `memory:`.
pub fn store_urls() -> impl Iterator<Item = &'static str> {
    SCHEMES.iter().filter(|row| row.opener.is_some()).map(|row| row.looks)
}

/// The same as one text, for a message.
pub(crate) fn allowed() -> String {
    let list: Vec<_> = store_urls().collect();
    if list.is_empty() {
        return "none, since no feature of a store is on".into();
    }
    list.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scheme_has_one_row_and_a_url_that_shows_it() {
        let mut names: Vec<_> = SCHEMES.iter().flat_map(|row| row.names).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for row in SCHEMES {
            assert!(row.looks.starts_with(&format!("{}:", row.names[0])), "{}", row.looks);
        }
    }

    #[tokio::test]
    async fn a_layout_is_refused_by_stores_without_locks_of_other_libraries() {
        for (scheme, url, part) in [
            ("redlock", "redlock://:hunter2@h1,h2,h3?layout=redsync", "only some nodes"),
            ("postgres", "postgres://u:hunter2@h/db?layout=advisory", "have no lease"),
            ("mysql", "mysql://u:hunter2@h/db?layout=get_lock", "have no lease"),
            ("memory", "memory:?layout=redisson", "no layout of another library"),
        ] {
            // Without its feature the URL itself is refused.
            let Ok(url) = StoreUrl::new(url) else { continue };
            let error = crate::open(url).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            let told = error.to_string();
            assert!(told.contains(part) && told.contains(&format!("for {scheme}")), "{told}");
            assert!(!told.contains("hunter2"), "{told}");
        }
    }

    #[test]
    fn what_is_not_compiled_in_says_which_feature_to_add() {
        let row = Scheme { names: &["x"], feature: "xyz", looks: "x:", opener: None };
        let error = row.opener().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("the cargo feature \"xyz\""), "{error}");
    }
}
