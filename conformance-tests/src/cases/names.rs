//! Any accepted name is safe in every store.

use std::collections::BTreeSet;

use lock_core::{ErrorKind, LockName, ReleaseOptions};

use super::cases;
use crate::setting::{Setting, granted};

cases! {
    "names" names_are_kept_apart;
    "names" the_longest_name_works;
    "names" a_bad_name_is_refused_before_the_store_is_touched;
}

/// Names that have a meaning in some store, or that some store may take for the same name as
/// another.
const ODD: &str = "\
    a|A|a | a|a/b|a/|a//b|{a}|{}|a}{b|a{b}c|%|_|a%|a*|[a]|?|a:b|a'b|a\"b|';--|a\\b|\\|\
    ä|a\u{308}|ß|ss|ſ|I|ı|日本|\u{1f512}|\u{200b}|..|../a|-|--|$1|@|#|0|00|NULL|\u{fffd}";

async fn names_are_kept_apart(setting: &Setting) {
    let backend = setting.connect().await;
    let mut grants = Vec::new();
    for odd in ODD.split('|') {
        let name = LockName::new(odd).unwrap();
        if setting.harness().refuses(odd) {
            let error = backend.try_acquire(&setting.request(&name)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            continue;
        }
        grants.push(granted(&*backend, &setting.request(&name)).await);
    }
    let mut listed = BTreeSet::new();
    let mut cursor = None;
    loop {
        let page = backend.list(cursor).await.unwrap();
        listed.extend(page.locks.into_iter().map(|state| state.name.as_str().to_owned()));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    for grant in &grants {
        assert!(listed.contains(grant.name.as_str()), "{:?} is held and not listed", grant.name);
        let state = backend.inspect(&grant.name).await.unwrap().expect("a held name");
        let (owner, name) = (state.holder.map(|holder| holder.owner), &grant.name);
        assert_eq!(owner, Some(grant.owner), "`inspect` must show the holder of {name:?}");
        backend.release(grant, ReleaseOptions::default()).await.unwrap();
    }
}

async fn the_longest_name_works(setting: &Setting) {
    let client = setting.client().await;
    // Three bytes each, 255 in all.
    let name = LockName::new("日".repeat(85)).unwrap();
    let guard = client.lock(&name).acquire().await.unwrap();
    assert!(client.lock(&name).try_acquire().await.unwrap().guard().is_none());
    guard.release().await.unwrap();
}

async fn a_bad_name_is_refused_before_the_store_is_touched(setting: &Setting) {
    let client = setting.client().await;
    for bad in ["", "a\nb", "a\0", &"x".repeat(256)] {
        let error = client.lock(bad).acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains("it must "), "{error}");
    }
}
