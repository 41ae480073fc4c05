//! A run over the stores that need no server.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use comparison::{Measure, Plan, Store, compare, embedded};
use leasehold::{ErrorKind, StoreUrl};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_figure_is_measured_and_nothing_is_left_behind() {
    let (stores, _folder) = embedded().unwrap();
    let urls: Vec<_> = stores.iter().map(|store| store.url.clone()).collect();
    let plan = Plan::new(Duration::from_secs(2)).unwrap();
    let report = compare(stores, plan, &mut ()).await.unwrap();
    assert_eq!(report.stores.len(), urls.len());
    for store in &report.stores {
        for measure in Measure::ALL {
            // The last few have little chance on a busy machine.
            let busy = matches!(measure, Measure::Handoff64 | Measure::Handoff256 | Measure::Held);
            let figure = store.figure(measure);
            assert!(figure.is_some() || busy, "{}: {measure:?}", store.name);
            let Some(figure) = figure else { continue };
            let median = &figure.median;
            assert!(median.count > 0 && median.p50_us > 0.0, "{}: {figure:?}", store.name);
            assert!(median.p50_us <= median.p99_us, "{}: {figure:?}", store.name);
        }
    }
    for url in urls {
        let page = leasehold::open(url).await.unwrap().list(None).await.unwrap();
        assert!(page.locks.iter().all(|lock| lock.holder.is_none()), "{:?}", page.locks);
    }
    let (text, page) = (report.to_string(), report.page().unwrap());
    for store in &report.stores {
        assert!(text.contains(&store.name) && page.contains(&store.name));
        for figure in &store.figures {
            let exact = format!("data-p50-us=\"{}\"", figure.median.p50_us);
            assert!(page.contains(&exact), "{exact} is not on the page");
        }
    }
    assert_eq!(page.matches("<svg").count(), 2);
    for outside in ["src=", "href=", "url(", "<script", "@import"] {
        assert!(!page.contains(outside), "the page needs {outside}");
    }
}

#[tokio::test]
async fn a_store_in_use_is_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    let client = leasehold::connect(url.as_str()).await.unwrap();
    let held = client.lock("nightly").acquire().await.unwrap();
    let store = Store::new(StoreUrl::new(&url).unwrap());
    let plan = Plan::new(Duration::from_secs(1)).unwrap();
    let error = compare(vec![store.clone()], plan, &mut ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("\"nightly\" is held"), "{error}");
    held.release().await.unwrap();
    let error = compare(vec![store.clone(), store], plan, &mut ()).await.unwrap_err();
    assert!(error.to_string().contains("named twice"), "{error}");
    assert!(compare(Vec::new(), plan, &mut ()).await.is_err());
}
