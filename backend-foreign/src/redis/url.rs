//! The URL of a store in Redis.

use std::sync::Arc;

use backend_redis::node;
use lock_core::{Backend, Error};
use url::form_urlencoded;

use super::{
    backend::Foreign,
    layout::{Layout, NAME, WORDS},
};
use crate::options::{self, refuse};

const FORM: &str =
    "the URL of locks shared with another library is redis://HOST:PORT?layout=LAYOUT";

/// Opens the locks of another library: `redis://HOST:PORT?layout=LAYOUT`, `rediss://…` with TLS, or
/// `unix:PATH?layout=LAYOUT`, with the options of a `redis://` URL. Layouts are `redisson`,
/// `redis-py`, `redsync`, `node-redlock`, `python-redis-lock`, `spring` with `registry=KEY`,
/// `shedlock` with `env=default`, and `string` with `key=TEMPLATE`, in which `{name}` is replaced
/// by the name.
///
/// # Errors
/// As [`backend_redis::connect`]; `InvalidInput` for an unknown layout, and for sentinels and
/// clusters.
pub(crate) async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error> {
    let (layout, rest) = parse(url)?;
    let mut builder = node::from_url(&rest, "layout, registry, env, key, ")?;
    if !rest_names_prefix(&rest) {
        builder = builder.prefix(layout.prefix());
    }
    Ok(Arc::new(Foreign::open(builder, layout).await?))
}

fn rest_names_prefix(url: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    form_urlencoded::parse(query.as_bytes()).any(|(option, _)| option == "prefix")
}

/// The layout, and the URL without its options.
fn parse(url: &str) -> Result<(Layout, String), Error> {
    // With TLS, `key` may also be a file. A file is not a template.
    let (options, rest) = options::split(url, |option, value| {
        Ok(matches!(option, "layout" | "registry" | "env")
            || option == "key" && value.contains(NAME))
    })?;
    let (mut word, mut detail) = (None, None);
    for (option, value) in options {
        match option.as_str() {
            "layout" => word = Some(value),
            _ => detail = Some((option, value)),
        }
    }
    let word = word.ok_or_else(|| refuse(format!("{FORM}; the layout must be {WORDS}")))?;
    let allowed = Layout::detail_option(&word);
    if let Some((option, _)) = &detail
        && Some(option.as_str()) != allowed
    {
        let needs =
            allowed.map_or("none of registry, env and key".to_owned(), |it| format!("{it}=…"));
        return Err(refuse(format!("{option} is no option of this layout; it must have {needs}")));
    }
    let layout = Layout::new(&word, detail.as_ref().map(|(_, value)| value.as_str()))?;
    Ok((layout, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_a_layout_are_removed_from_the_url() {
        let url = "redis://u:hunter2@h/1?timeout=3s&layout=string&key=locks:{name}&plaintext=on";
        let (layout, rest) = parse(url).unwrap();
        assert_eq!((layout.word, &*layout.key), ("string", "locks:{name}"));
        assert_eq!(rest, "redis://u:hunter2@h/1?timeout=3s&plaintext=on");
        let (layout, rest) = parse("redis://h?layout=spring&registry=a%20b").unwrap();
        assert_eq!((&*layout.key, &*rest), ("a b:{name}", "redis://h"));
        // `key` is a file here.
        let (_, rest) = parse("rediss://h?layout=redisson&cert=c&key=k").unwrap();
        assert_eq!(rest, "rediss://h?cert=c&key=k");
    }

    #[tokio::test]
    async fn invalid_urls_are_refused_with_an_explanation_and_without_the_url() {
        for (url, part) in [
            ("redis://:hunter2@h", "redis://HOST:PORT?layout=LAYOUT"),
            ("redis://:hunter2@h?timeout=3s", "the layout must be redisson"),
            ("redis://:hunter2@h?layout=hunter2", "layout is not allowed; it must be redisson"),
            ("redis://h?layout=redisson&layout=spring", "layout is given twice"),
            ("redis://h?layout=spring", "needs registry=KEY"),
            ("redis://h?layout=redisson&env=x", "env is no option of this layout"),
            ("redis://h?layout=string", "needs key=TEMPLATE"),
            ("redis://h?layout=redis-py&hunter2=1", "unknown option in the URL; it must be one of"),
            ("redis+cluster://h?layout=redisson", "must be one server"),
            ("redis+sentinel://h/m?layout=redisson", "must be one server"),
            ("redis://h?layout=redisson&wait_replicas=1", "wait_replicas must be 0"),
        ] {
            let error = connect(url).await.unwrap_err();
            assert_eq!(error.kind(), lock_core::ErrorKind::InvalidInput, "{url}: {error}");
            assert!(error.to_string().contains(part), "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("hunter"), "{error:?}");
        }
    }
}
