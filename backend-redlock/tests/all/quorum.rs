//! What only a quorum has: which nodes are allowed, permissions, and changed settings.

#[path = "../../../backend-redis/tests/all/support/changes.rs"]
mod changes;

use std::{sync::Arc, time::Duration};

use backend_redis::RedisBuilder;
use backend_redlock::RedlockBuilder;
use lock_core::{
    Attempt, Backend, Env as _, ErrorKind, ReleaseOptions, ReleaseOutcome, Renewal, Request,
    SystemEnv,
};
use servers::{ClientCertificates, Mode, Proxy, Redis, RedisOptions, Server as _};

use crate::support::{
    LEASE, Nodes, PATIENT, busy, connect, eventually, first_use, granted, name,
    permissions::{commands_of, documented_acl, of_scripts},
    request,
    shared_cases::{assert_permitted_no_more, taken_away, unreadable, use_every_operation},
};

#[tokio::test]
async fn the_same_server_under_two_names_is_refused() {
    let nodes = Nodes::bare(vec![RedisOptions::new(); 2]).await;
    let (one, two) = (nodes.servers[0].address(), nodes.servers[1].address());
    let url = format!("redlock://{one},localhost:{},{two}?{PATIENT}", one.port());
    let error = backend_redlock::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let told = error.to_string();
    assert!(told.contains("localhost") && told.contains("independent"), "{told}");
}

/// The node may lose a lock at any time, and then another client gets a majority.
#[tokio::test]
async fn exclusion_is_not_promised_over_a_node_that_may_evict() {
    let nodes = Nodes::start(3).await;
    let store = connect(&nodes.url("")).await;
    assert!(store.guarantees().exclusion.holds());
    for (policy, promised) in [("allkeys-lru", false), ("noeviction", true)] {
        let set = ["CONFIG", "SET", "maxmemory-policy", policy];
        assert_eq!(nodes.servers[2].cli(&set).await.unwrap(), "OK");
        let shown = || async { (store.guarantees().exclusion.holds() == promised).then_some(()) };
        eventually(policy, shown).await;
    }
}

#[tokio::test]
async fn the_documented_permissions_are_enough_and_no_more() {
    let redis = include_str!("../../../backend-redis/src/lib.rs");
    let acl = documented_acl(redis, "# Permissions", "leasehold-redlock");
    let own = |text: &'static str| text.split('`').find(|part| part.starts_with("+zadd")).unwrap();
    let more = own(include_str!("../../src/lib.rs"));
    assert_eq!(own(include_str!("../../../docs/backends/redlock.md")), more);
    let needed = of_scripts(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
    assert_eq!(commands_of(more), &needed - &commands_of(&acl));
    let acl = format!("{acl} {more}");
    let nodes = Nodes::bare(vec![RedisOptions::new().line(acl); 3]).await;
    let hosts: Vec<_> =
        nodes.servers.iter().map(|each| format!("app:hunter2@{}", each.address())).collect();
    let url = format!("redlock://{}?{PATIENT}", hosts.join(","));
    let store = connect(&url).await;
    assert!(!format!("{store:?}").contains("hunter2"));
    use_every_operation(&*store, None).await;
    for server in &nodes.servers {
        assert_permitted_no_more(server).await;
    }
}

#[tokio::test]
async fn a_node_that_refuses_the_user_is_named() {
    let mut options = vec![RedisOptions::new(); 3];
    options[1] = options[1].clone().password("right");
    let nodes = Nodes::bare(options).await;
    let error = backend_redlock::connect(&nodes.url(PATIENT)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
    assert!(error.to_string().contains(&nodes.servers[1].address().to_string()), "{error}");
}

#[tokio::test]
async fn each_node_may_have_tls_and_a_user_of_its_own() {
    let mut options = vec![RedisOptions::new(); 3];
    options[0] = options[0].clone().tls(ClientCertificates::Required);
    options[1] = options[1].clone().password("hunter2");
    let nodes = Nodes::bare(options).await;
    let tls = &nodes.servers[0];
    let (port, files) = (tls.tls_address().unwrap().port(), tls.certificates().unwrap());
    let read = |path| std::fs::read(path).unwrap();
    let builders = [
        RedisBuilder::tls("127.0.0.1", port)
            .roots(read(&files.ca))
            .certificate(read(&files.client_cert), read(&files.client_key)),
        RedisBuilder::tcp("127.0.0.1", nodes.servers[1].address().port()).password("hunter2"),
        RedisBuilder::tcp("127.0.0.1", nodes.servers[2].address().port()),
    ];
    let patient = std::time::Duration::from_secs(4);
    let builder = RedlockBuilder::new(builders).timeout(2 * patient).node_timeout(patient);
    let store = builder.clock_bound(patient / 2).build().await.unwrap();
    first_use(&*store).await;
    granted(&*store, &request("a", LEASE)).await;
    assert!(!format!("{store:?}").contains("hunter2"));
}

#[tokio::test]
async fn memory_is_that_of_live_names() {
    let nodes = Nodes::start(3).await;
    let store = nodes.direct().await;
    let warm = granted(&*store, &request("warm", LEASE)).await;
    store.release(&warm, ReleaseOptions::default()).await.unwrap();
    let cycles = (0..3_000).map(|number| {
        let store = store.clone();
        async move {
            let grant = granted(&*store, &request(&format!("job {number}"), LEASE)).await;
            store.release(&grant, ReleaseOptions::default()).await.unwrap();
        }
    });
    use futures_util::StreamExt as _;
    futures_util::stream::iter(cycles).buffer_unordered(50).collect::<Vec<_>>().await;
    eventually("only the epoch record to be left", || async {
        for server in &nodes.servers {
            if server.cli(&["DBSIZE"]).await.unwrap() != "1" {
                return None;
            }
        }
        Some(())
    })
    .await;
    assert_eq!(nodes.keeping(&name("job 1")).await, 0);
}

/// The watermark of a name: part of the protocol between clients.
pub(super) fn watermark(name: &str) -> String {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("mark{}", hash % 1024)
}

#[tokio::test]
async fn different_numbers_become_one_before_the_grant_is_returned() {
    let nodes = Nodes::start(3).await;
    let store = nodes.direct().await;
    let first = granted(&*store, &request("a", LEASE)).await;
    store.release(&first, ReleaseOptions::default()).await.unwrap();
    // As if grants of other clients had reached the nodes in different orders.
    let mut highest = 0;
    for (server, ahead) in nodes.servers.iter().zip([10_000_000, 20_000_000, 5_000_000]) {
        let mark = first.token.get() + ahead;
        let epoch = "leasehold-redlock:{0}:epoch";
        server.cli(&["HSET", epoch, &watermark("a"), &mark.to_string()]).await.unwrap();
        highest = highest.max(mark);
    }
    let grant = granted(&*store, &request("a", LEASE)).await;
    let mut with_the_token = 0;
    for server in &nodes.servers {
        let record = server.cli(&["GET", "leasehold-redlock:{0}:lock:a"]).await.unwrap();
        with_the_token += usize::from(record.contains(&format!(" {} ", grant.token)));
    }
    assert!(with_the_token >= 2, "{with_the_token} nodes have {}", grant.token);
    assert_eq!(busy(&*store, &request("a", LEASE)).await.holder.unwrap().owner, grant.owner);
    store.release(&grant, ReleaseOptions::default()).await.unwrap();
    let next = granted(&*store, &request("a", LEASE)).await;
    assert!(next.token > grant.token);
    assert!(grant.token.get() > first.token.get() + 5_000_000 && highest > first.token.get());
}

fn quorum(servers: &[Redis], options: &str) -> changes::Connecting {
    let hosts: Vec<_> = servers.iter().map(|each| each.address().to_string()).collect();
    let own = "timeout=5s&node_timeout=2s&clock_bound=50ms";
    let url = format!("redlock://{}?{own}&{options}", hosts.join(","));
    Box::pin(async move { connect(&url).await })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_change_of_a_setting_and_no_loss_of_data_admit_two_holders() {
    changes::try_all(3, quorum).await;
}

#[tokio::test]
async fn used_up_tokens_are_reported_and_set_back() {
    changes::try_used_up_tokens(3, "leasehold-redlock:{0}:epoch", quorum).await;
}

/// Each node has its own setting, and `init` reaches one node after the other.
#[tokio::test]
async fn a_longest_lease_that_was_lowered_on_one_node_binds_renewals() {
    let nodes = Nodes::start(3).await;
    let store = nodes.direct().await;
    let grant = granted(&*store, &request("a", LEASE)).await;
    let key = "leasehold-redlock:{0}:epoch";
    nodes.servers[0].cli(&["HSET", key, "longest", "12000000"]).await.unwrap();
    // Until its answer is among those that the call waits for.
    eventually("a shorter renewal", || async {
        match store.renew(&[&grant], SystemEnv.now()).await.remove(0) {
            Renewal::Renewed { lease, .. } if lease == LEASE => None,
            Renewal::Renewed { lease, .. } => {
                assert_eq!(lease, Duration::from_secs(12));
                Some(())
            }
            other => panic!("{other:?}"),
        }
    })
    .await;
}

#[tokio::test]
async fn an_unreadable_record_holds_its_lock_and_hides_no_other() {
    let nodes = Nodes::start(3).await;
    let store = nodes.direct().await;
    let good = granted(&*store, &request("good", LEASE)).await;
    let stolen = granted(&*store, &request("stolen", LEASE)).await;
    let owner = "0123456789abcdef0123456789abcdef";
    let records = [
        ("control", "SET", format!("{owner} 7 0 1 a\u{7}b")),
        ("owner", "SET", "somebody 7 0 1 label".to_owned()),
        ("number", "SET", format!("{owner} 99999999999999999999 0 1 label")),
        ("empty", "SET", String::new()),
        ("list", "RPUSH", "x".to_owned()),
        ("stolen", "RPUSH", "x".to_owned()),
    ];
    // A majority.
    for server in &nodes.servers[1..] {
        for (text, command, value) in &records {
            let key = format!("leasehold-redlock:{{0}}:lock:{text}");
            server.cli(&["DEL", &key]).await.unwrap();
            server.cli(&[command, &key, value]).await.unwrap();
        }
    }
    let answers = store.renew(&[&stolen, &good], SystemEnv.now()).await;
    assert!(matches!(answers[0], Renewal::Lost(_)), "{answers:?}");
    assert!(matches!(answers[1], Renewal::Renewed { .. }), "{answers:?}");
    let released = store.release(&stolen, ReleaseOptions::default()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::NotHeld);
    for (text, ..) in &records {
        unreadable(busy(&*store, &request(text, LEASE)).await.holder);
        unreadable(store.inspect(&name(text)).await.unwrap().unwrap().holder);
    }
    let listed = store.list(None).await.unwrap().locks;
    assert_eq!(listed.len(), records.len() + 1, "{listed:?}");
    for lock in listed {
        match lock.name.as_str() {
            "good" => assert_eq!(lock.holder.unwrap().owner, good.owner),
            _ => unreadable(lock.holder),
        }
    }
    for (text, ..) in &records {
        taken_away(&*store, text).await;
    }
}

/// The nodes answer that the asker no longer holds the lock.
#[tokio::test]
async fn a_number_that_is_not_taken_is_no_token() {
    let nodes = Nodes::start(3).await;
    let (mut proxies, mut hosts) = (Vec::new(), Vec::new());
    for (at, server) in nodes.servers.iter().enumerate() {
        let mark = (SystemEnv.wall_micros() + (at as u64 + 1) * 10_000_000).to_string();
        let epoch = "leasehold-redlock:{0}:epoch";
        server.cli(&["HSET", epoch, &watermark("a"), &mark, "top", &mark]).await.unwrap();
        let texts = [("if holder ~= owner or state ~= '0' then", "if true then")];
        let proxy = Proxy::altering(server.address(), &texts).await.unwrap();
        hosts.push(proxy.address().to_string());
        proxies.push(proxy);
    }
    let store = connect(&format!("redlock://{}?{PATIENT}", hosts.join(","))).await;
    let answer = store.try_acquire(&request("a", LEASE)).await;
    assert!(proxies.iter().any(|proxy| proxy.counters().altered > 0), "nothing was written");
    assert!(!matches!(answer, Ok(Attempt::Granted(_))), "{answer:?}");
}

/// A proxied store on three nodes that say that `asked`'s owner holds the lock. One has another
/// number than the other two, of which one answers late.
async fn with_other_numbers(nodes: &Nodes, asked: &Request) -> Arc<dyn Backend> {
    // A wide bound, so that a late reply still says enough about its node's clock.
    let store = nodes.proxied("timeout=5s&node_timeout=3s&clock_bound=3s").await;
    for (server, number) in nodes.servers.iter().zip([900, 800, 800]) {
        let record = format!("{} {number} 0 1 test", asked.owner);
        let key = "leasehold-redlock:{0}:lock:a";
        server.cli(&["SET", key, &record, "PX", "20000"]).await.unwrap();
    }
    let late = Duration::from_millis(300);
    let mode = Mode::Delay { to_server: late, to_client: Duration::ZERO };
    nodes.proxies[2].set(mode).await.unwrap();
    store
}

#[tokio::test]
async fn a_repeat_finds_the_token_that_was_agreed_on() {
    let (nodes, asked) = (Nodes::start(3).await, request("a", LEASE));
    let store = with_other_numbers(&nodes, &asked).await;
    assert_eq!(granted(&*store, &asked).await.token.get(), 800);
}

#[tokio::test]
async fn a_refusal_names_the_token_that_was_agreed_on() {
    let nodes = Nodes::start(3).await;
    let store = with_other_numbers(&nodes, &request("a", LEASE)).await;
    let answer = store.try_acquire(&request("a", LEASE)).await.unwrap();
    let Attempt::Busy(busy) = answer else { panic!("{answer:?}") };
    assert_eq!(busy.token.get(), 800);
}
