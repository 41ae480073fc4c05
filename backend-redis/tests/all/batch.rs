//! Attempts and releases that share a script keep every promise that each keeps alone.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use servers::Server as _;

use crate::support::{
    attempts, calls, connect, grants, many_requests, releases, request, server, shared_cases, url,
};

const LEASE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn many_acquire_and_release_in_few_scripts() {
    let server = server().await;
    let scripts = async || calls(&server, "evalsha").await;
    let store = connect(&url(&server)).await;
    shared_cases::many_acquire_and_release_in_few_scripts(&*store, scripts, 6).await;
}

#[tokio::test]
async fn each_client_of_a_shared_store_keeps_its_label() {
    let server = server().await;
    shared_cases::each_client_of_a_shared_store_keeps_its_label(&connect(&url(&server)).await)
        .await;
}

/// Each call ends in the time of one. If its caller was told that it was not sent, it never
/// arrives.
#[tokio::test]
async fn ten_thousand_calls_to_a_server_that_hangs_end_in_the_time_of_one() {
    const LIMIT: Duration = Duration::from_secs(3);
    let server = server().await;
    let store = connect(&format!("{}?timeout=3s", url(&server))).await;
    // From here on the server knows all scripts.
    let warm = grants(attempts(&*store, &many_requests("warm", LEASE)).await);
    releases(&*store, &warm).await;
    let asked: Vec<_> = (0..10_000).map(|at| request(&format!("job {at}"), LEASE)).collect();
    server.pause().unwrap();
    let began = Instant::now();
    let answers = attempts(&*store, &asked).await;
    let took = began.elapsed();
    server.resume().unwrap();
    // Twenty-five rounds of four batches would be 75 s. One is 3 s, and more on a busy machine.
    assert!(took < 20 * LIMIT, "{took:?}");
    let mut sent = HashSet::new();
    for (request, answer) in asked.iter().zip(answers) {
        if answer.unwrap_err().is_ambiguous() {
            sent.insert(request.name.clone());
        }
    }
    assert!(!sent.is_empty() && sent.len() < 1_000, "{} of 10,000 were sent", sent.len());
    let (direct, mut from) = (connect(&url(&server)).await, None);
    loop {
        let page = direct.list(from).await.unwrap();
        let strange = page.locks.iter().find(|lock| !sent.contains(&lock.name));
        assert!(strange.is_none(), "{strange:?} was not sent, and is held");
        from = page.next;
        if from.is_none() {
            return;
        }
    }
}
