//! `migrate:PHASE?from=URL&to=URL` — two stores as one, while processes move from the first to the
//! second.

use std::sync::Arc;

use backend_migration::{Migration, Phase};
use lock_core::{Backend, Error, ErrorKind, SeenOptions};
use percent_encoding::percent_decode_str;

use crate::{StoreUrl, open as open_store};

const FORM: &str = "the URL of a migration is migrate:PHASE?from=URL&to=URL, where PHASE is old, \
                    both or new, and each URL is that of a store, with %25 for % and %26 for &";

pub(super) async fn open(url: StoreUrl) -> Result<Arc<dyn Backend>, Error> {
    let (phase, [from, to]) = parse(url.expose()).map_err(|error| error.at("migrate", "connect"))?;
    let old = open_side("from", from).await?;
    let new = match open_side("to", to).await {
        Ok(new) => new,
        Err(error) => {
            old.close().await;
            return Err(error);
        }
    };
    match Migration::new(Arc::clone(&old), Arc::clone(&new), phase).await {
        Ok(migration) => Ok(Arc::new(migration)),
        Err(error) => {
            old.close().await;
            new.close().await;
            Err(error)
        }
    }
}

/// Opens one of the two stores, and names it in an error: the store's own errors do not.
async fn open_side(side: &str, url: StoreUrl) -> Result<Arc<dyn Backend>, Error> {
    open_store(url).await.map_err(|error| {
        let message = format!("the store {side:?} of a migration cannot be opened");
        Error::new(error.kind(), message).at("migrate", "connect").with_source(error)
    })
}

pub(super) fn schema(_: &StoreUrl) -> Result<String, Error> {
    let message = "a migration has no schema of its own; each of its two stores may have one";
    Err(Error::new(ErrorKind::Unsupported, message).at("migrate", "schema"))
}

fn refuse(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

pub(crate) fn parse(url: &str) -> Result<(Phase, [StoreUrl; 2]), Error> {
    let (_, rest) = url.split_once(':').ok_or_else(|| refuse(FORM))?;
    let (phase, query) = rest.split_once('?').ok_or_else(|| refuse(FORM))?;
    let phase = match phase {
        "old" => Phase::Old,
        "both" => Phase::Both,
        "new" => Phase::New,
        _ => return Err(refuse(FORM)),
    };
    let (mut from, mut to) = (None, None);
    let mut given = SeenOptions::default();
    for pair in query.split('&') {
        let (side, store, value) = match pair.split_once('=') {
            Some((side @ "from", value)) => (side, &mut from, value),
            Some((side @ "to", value)) => (side, &mut to, value),
            // The message does not show the option: if a URL was not encoded, it may be a part of a
            // password.
            _ => return Err(refuse(format!("{FORM}; there are no other options"))),
        };
        given.once(side)?;
        let text = percent_decode_str(value).decode_utf8().map_err(|_| refuse(FORM))?;
        let opened = StoreUrl::new(&*text)?;
        if opened.scheme() == "migrate" {
            return Err(refuse(FORM));
        }
        *store = Some(opened);
    }
    match (from, to) {
        (Some(from), Some(to)) => Ok((phase, [from, to])),
        _ => Err(refuse(FORM)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_else_is_refused_with_what_is_allowed() {
        for url in [
            "migrate:",
            "migrate:both",
            "migrate:half?from=memory%3A&to=memory%3A",
            "migrate:both?from=memory%3A",
            "migrate:both?from=memory%3A&to=memory%3A&lease=1s",
            "migrate:both?from=memory%3A&to=memory%3A&lease",
            "migrate:both?from=memory%3A&to=migrate%3Anew%3Ffrom%3Dmemory%253A%26to%3Dmemory%253A",
        ] {
            let error = parse(url).err().unwrap_or_else(|| panic!("{url} was taken"));
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{url}: {error}");
            assert!(error.to_string().contains("migrate:PHASE?from=URL&to=URL"), "{error}");
        }
        let twice = parse("migrate:both?from=memory%3A&from=memory%3A&to=memory%3A").unwrap_err();
        assert!(twice.to_string().contains("from is given twice"), "{twice}");
        for url in [
            "migrate:both?from=nowhere%3A%2F%2Fu%3Ahunter2%40h&to=memory%3A",
            "migrate:both?from=redis://u:pass&hunter2=x@h&to=memory%3A",
        ] {
            assert!(!parse(url).unwrap_err().to_string().contains("hunter2"));
        }
    }

    #[test]
    fn a_url_may_stand_as_it_is_where_nothing_in_it_has_to_be_encoded() {
        let (_, stores) = parse("migrate:old?from=memory:?a=b&to=memory://h:1/c").unwrap();
        assert_eq!(stores.each_ref().map(StoreUrl::expose), ["memory:?a=b", "memory://h:1/c"]);
    }

    #[test]
    fn each_phase_is_read_with_both_stores() {
        for (word, phase) in [("old", Phase::Old), ("both", Phase::Both), ("new", Phase::New)] {
            let url = format!("migrate:{word}?from=memory%3A&to=memory%3A");
            let (read, stores) = parse(&url).unwrap();
            assert_eq!(read, phase);
            assert!(stores.iter().all(|store| store.expose() == "memory:"));
        }
    }
}
