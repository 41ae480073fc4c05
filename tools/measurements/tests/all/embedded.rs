//! Runs over the stores that need no server.

use std::{future::pending, time::Duration};

use leasehold::{ErrorKind, StoreUrl};
use measurements::{Comparison, Measure, Plan, Report, Store, embedded};

/// `memory:` is one store for the whole process, and one in use is refused: one test at a time.
static MEMORY: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

async fn run(stores: Vec<Store>, seconds: u64) -> Result<Report, leasehold::Error> {
    let plan = Plan::new(Duration::from_secs(seconds)).unwrap();
    let report = Comparison::new(stores, plan).run(&mut (), pending()).await;
    report.map(|report| report.expect("nobody stops it"))
}

async fn tables_of_floors(folder: &tempfile::TempDir) -> i64 {
    let file = folder.path().join("locks.db");
    if !file.exists() {
        return 0;
    }
    let file = format!("sqlite:{}", file.display());
    let pool = sqlx::SqlitePool::connect(&file).await.unwrap();
    let count = "SELECT count(*) FROM sqlite_schema WHERE name LIKE '%compare%'";
    sqlx::query_scalar(count).fetch_one(&pool).await.unwrap()
}

/// Ready at the poll with this number.
async fn poll(number: usize) {
    let mut left = number;
    std::future::poll_fn(|_| match left.checked_sub(1) {
        None => std::task::Poll::Ready(()),
        Some(less) => {
            left = less;
            std::task::Poll::Pending
        }
    })
    .await;
}

/// Whatever a run waits for when it is stopped: also while it makes the table of its floor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_stopped_leaves_no_table() {
    let (mut stores, folder) = embedded().unwrap();
    let sqlite = stores.remove(1);
    for number in 0..80 {
        let plan = Plan::new(Duration::from_secs(6)).unwrap();
        let run = Comparison::new(vec![sqlite.clone()], plan).run(&mut (), poll(number)).await;
        assert!(run.unwrap().is_none(), "{number}: it was not stopped");
        assert_eq!(tables_of_floors(&folder).await, 0, "stopped at poll {number}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_measured_says_why_and_nothing_is_left_behind() {
    let _alone = MEMORY.lock().await;
    let (stores, folder) = embedded().unwrap();
    let urls: Vec<_> = stores.iter().map(|store| store.url.clone()).collect();
    // On a busy machine, two seconds were too short for a handoff in each slice.
    let report = run(stores, 6).await.unwrap();
    assert_eq!(report.stores.len(), urls.len());
    for store in &report.stores {
        for measure in Measure::ALL {
            let missing = store.missing.iter().find(|missing| missing.measure == measure);
            let Some(figure) = store.figure(measure) else {
                assert!(!missing.unwrap().why.is_empty());
                continue;
            };
            assert!(missing.is_none(), "{measure:?} is both");
            let median = &figure.median;
            assert!(median.count > 0 && median.p50_us > 0.0, "{}: {figure:?}", store.name);
            assert!(median.p50_us <= median.p99_us, "{}: {figure:?}", store.name);
        }
        for measure in [Measure::Ping, Measure::Pair, Measure::Acquire, Measure::Uncontended] {
            assert!(store.figure(measure).is_some(), "{}: {measure:?}", store.name);
        }
        // Six seconds are too short for 10,000 held locks, and for memory no process can be killed.
        let held = store.missing.iter().find(|it| it.measure == Measure::Held10000).unwrap();
        assert!(held.why.contains("--for"), "{held:?}");
        assert!(!store.settings.is_empty(), "{}", store.name);
    }
    assert_eq!(report.ratios.len(), 2, "{:?}", report.ratios);
    for url in urls {
        let page = leasehold::open(url).await.unwrap().list(None).await.unwrap();
        assert!(page.locks.iter().all(|lock| lock.holder.is_none()), "{:?}", page.locks);
    }
    assert_eq!(tables_of_floors(&folder).await, 0);
    let (text, page) = (report.to_string(), report.page().unwrap());
    for store in &report.stores {
        assert!(text.contains(&store.name) && page.contains(&store.name));
        for figure in &store.figures {
            let exact = format!("data-p50-us=\"{}\"", figure.median.p50_us);
            assert!(page.contains(&exact), "{exact} is not on the page");
        }
    }
    assert_eq!(page.matches("<svg").count(), 4);
    for outside in ["src=", "href=", "url(", "<script", "@import"] {
        assert!(!page.contains(outside), "the page needs {outside}");
    }
}

/// Whatever the machine does meanwhile, no run tells apart the other way round what another one
/// told apart. And what is far apart is told apart, by two runs; a busy machine needs longer ones
/// for that, and more of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_run_again_gives_the_same_ranking() {
    let _alone = MEMORY.lock().await;
    let (mut runs, mut told) = (Vec::new(), 0);
    while told < 2 {
        let (stores, _folder) = embedded().unwrap();
        let rankings = run(stores, 3 << runs.len().min(5)).await.unwrap().rankings;
        let of = rankings.iter().find(|ranking| ranking.measure == Measure::Uncontended);
        told += usize::from(of.is_some_and(|of| of.places == [["memory"], ["sqlite"]]));
        runs.push(rankings);
    }
    for (one, other) in runs.iter().flat_map(|one| runs.iter().map(move |other| (one, other))) {
        for ranking in one.iter().filter(|ranking| ranking.places.len() > 1) {
            let reversed: Vec<_> = ranking.places.iter().rev().cloned().collect();
            let contradicts = |again: &&measurements::Ranking| {
                again.measure == ranking.measure && again.places == reversed
            };
            assert!(!other.iter().any(|again| contradicts(&again)), "{one:?} and {other:?}");
        }
    }
}

#[tokio::test]
async fn a_run_that_is_stopped_leaves_nothing_behind() {
    let _alone = MEMORY.lock().await;
    let (stores, folder) = embedded().unwrap();
    let url = stores[1].url.clone();
    let plan = Plan::new(Duration::from_secs(600)).unwrap();
    let stop = tokio::time::sleep(Duration::from_millis(500));
    let report = Comparison::new(stores, plan).run(&mut (), stop).await.unwrap();
    assert!(report.is_none());
    let page = leasehold::open(url).await.unwrap().list(None).await.unwrap();
    assert!(page.locks.iter().all(|lock| lock.holder.is_none()), "{:?}", page.locks);
    assert_eq!(tables_of_floors(&folder).await, 0);
}

#[tokio::test]
async fn a_store_in_use_is_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    let client = leasehold::connect(url.as_str()).await.unwrap();
    let held = client.lock("nightly").acquire().await.unwrap();
    let store = Store::new(StoreUrl::new(&url).unwrap());
    let error = run(vec![store.clone()], 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("\"nightly\" is held"), "{error}");
    held.release().await.unwrap();
    let error = run(vec![store.clone(), store], 1).await.unwrap_err();
    assert!(error.to_string().contains("named twice"), "{error}");
    assert!(run(Vec::new(), 1).await.is_err());
}
