//! Migration between real servers: with clocks that differ, with passwords, and with lost data.

use std::{
    error::Error as _,
    net::SocketAddr,
    time::{Duration, Instant},
};

use leasehold::{
    Error, ErrorKind, FencingToken, Init, LockClient,
    migration::{Fleet, Phase},
};
use servers::{Clock, Etcd, EtcdOptions, Mode, Proxy, Redis, RedisOptions, Server as _};
use verification::stores::pairs;

const LONGEST: Duration = Duration::from_secs(30);
/// How long a test waits for an event before it fails.
const HANG: Duration = Duration::from_secs(120);

/// Starts a Redis and initializes it, so that it grants at once.
async fn ready(options: RedisOptions) -> (String, Redis) {
    let server = Redis::start(options).await.unwrap();
    let url = format!("redis://{}", server.address());
    let store = leasehold::open(&url).await.unwrap();
    let init = Init::new().with_first_use(true).with_longest_lease(LONGEST);
    store.init(&init).await.unwrap();
    store.close().await;
    (url, server)
}

async fn token(client: &LockClient, name: &str) -> FencingToken {
    let guard = client.lock(name).wait(LONGEST).acquire().await.unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    token
}

/// Tokens of one name increase through all phases, forward and back, although phase `both` never
/// sees the name and one server's clock is behind: the migration sets a floor. With the plain URL
/// they would decrease.
#[tokio::test]
async fn tokens_increase_although_a_clock_is_behind() {
    let clock = Clock::new().await.unwrap();
    clock.step(-12.0).unwrap();
    let (behind, _behind) = ready(RedisOptions::new().clock(&clock)).await;
    let (right, _right) = ready(RedisOptions::new()).await;
    let ways = [
        (&right, &behind, [Phase::Old, Phase::Both, Phase::New]),
        (&behind, &right, [Phase::New, Phase::Both, Phase::Old]),
    ];
    for (from, to, phases) in ways {
        let name = format!("job {}", phases[0]);
        let mut last = FencingToken::ZERO;
        for phase in phases.into_iter().chain(phases.into_iter().rev()) {
            let client = leasehold::connect(&pairs::url(phase, from, to)).await.unwrap();
            // Nothing is acquired in phase `both`: that would raise the tokens of the store that is
            // behind.
            for _ in 0..if phase == Phase::Both { 0 } else { 2 } {
                let token = token(&client, &name).await;
                assert!(token > last, "{phase}: {token} after {last}");
                last = token;
            }
            if phase == phases[0] {
                // The control: with the plain URL, tokens decrease.
                let plain = leasehold::connect(&behind).await.unwrap();
                let back = self::token(&plain, &format!("plain {phase}")).await;
                assert!(
                    back < last,
                    "the clock is not behind: token {back} after {last} with the plain URL"
                );
                plain.close().await;
            }
            client.close().await;
        }
    }
}

/// A clock that is so far behind that tokens could not increase is refused before anything is
/// granted.
#[tokio::test]
async fn a_clock_that_is_too_far_behind_is_refused() {
    let clock = Clock::new().await.unwrap();
    clock.step(-2.0 * LONGEST.as_secs_f64()).unwrap();
    let (behind, _behind) = ready(RedisOptions::new().clock(&clock)).await;
    let (right, _right) = ready(RedisOptions::new()).await;
    let error = leasehold::connect(&pairs::url(Phase::New, &right, &behind)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("clock of the redis store is 1m"), "{error}");
    let client = leasehold::connect(&pairs::url(Phase::Both, &right, &behind)).await.unwrap();
    let error = client.lock("job").wait(LONGEST).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("clock"), "{error}");
    for url in [&behind, &right] {
        // The attempt has left no lock.
        let plain = leasehold::connect(url).await.unwrap();
        token(&plain, "job").await;
        plain.close().await;
    }
    client.close().await;
    // The refused process has left no record that would keep others out.
    let client = leasehold::connect(&pairs::url(Phase::Old, &right, &behind)).await.unwrap();
    token(&client, "job").await;
    client.close().await;
}

const SHORT: Duration = Duration::from_secs(2);

/// A process in phase `old` works on after its old store has lost its data, and so has a new
/// identity.
async fn goes_on_after(scheme: &str, server: SocketAddr, lose: impl AsyncFnOnce()) {
    let (to, _to) = ready(RedisOptions::new()).await;
    let from = format!("{scheme}://{server}");
    let set_up = async || {
        let store = leasehold::open(&from).await.unwrap();
        let init = Init::new().with_first_use(true).with_longest_lease(SHORT);
        store.init(&init).await.unwrap();
        let identity = store.identity().await.unwrap();
        store.close().await;
        identity
    };
    let before = set_up().await;
    let proxy = Proxy::start(server).await.unwrap();
    let behind = format!("{scheme}://{}", proxy.address());
    let client = leasehold::connect(&pairs::url(Phase::Old, &behind, &to)).await.unwrap();
    let guard = client.lock("job").lease(SHORT).acquire().await.unwrap();
    // The store is initialized anew, before the process reaches it again.
    proxy.set(Mode::Reset).await.unwrap();
    lose().await;
    assert_ne!(set_up().await, before, "the store has lost its data but has the same identity");
    guard.lost().await;
    proxy.set(Mode::Pass).await.unwrap();
    let [old, new] = [leasehold::open(&from).await.unwrap(), leasehold::open(&to).await.unwrap()];
    let began = Instant::now();
    loop {
        // An old record would name the old identity, and show no phase.
        let members = Fleet::survey(&*old, &*new).await.unwrap().members;
        if members.iter().map(|member| member.phase).eq([Some(Phase::Old)]) {
            break;
        }
        assert!(
            began.elapsed() < HANG,
            "the process has not written its record again: {members:?}"
        );
    }
    let again = client.lock("job").lease(SHORT).wait(HANG).acquire().await.unwrap();
    assert!(again.token() > guard.token());
    drop(again);
    for store in [old, new] {
        store.close().await;
    }
    client.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_goes_on_in_a_redis_that_lost_its_data() {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let lose = async || drop(server.cli(&["FLUSHALL"]).await.unwrap());
    goes_on_after("redis", server.address(), lose).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_goes_on_in_an_etcd_that_lost_its_data() {
    let mut etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
    let address = etcd.endpoints()[0];
    let lose = async || {
        let member = etcd.member_mut(0);
        member.process_mut().kill().unwrap();
        member.lose_data().await.unwrap();
        member.process_mut().start_again().unwrap();
        etcd.wait_healthy().await.unwrap();
    };
    goes_on_after("etcd", address, lose).await;
}

const PASSWORD: &str = "p@ss:w/rd&x=%41+ü";

/// Asserts that a text has no part of the password, in any encoding.
fn shows_nothing(text: &str) {
    for part in ["ss:w", "ss%3", "%2541", "rd&x", "rd%26", "%41"] {
        assert!(!text.contains(part), "it shows a part of the password, {part:?}: {text}");
    }
}

fn shows_nothing_of(error: &Error) {
    shows_nothing(&format!("{error} {error:?}"));
    let mut source = error.source();
    while let Some(error) = source {
        shows_nothing(&format!("{error} {error:?}"));
        source = error.source();
    }
}

/// A password is encoded twice in the URL of a migration; it opens both stores and is shown
/// nowhere.
#[tokio::test]
async fn passwords_are_decoded_and_never_shown() {
    let servers = Redis::start_many(2, RedisOptions::new().password(PASSWORD)).await.unwrap();
    let url = |server: &Redis, password: &str| {
        format!("redis://:{}@{}", pairs::encoded(password), server.address())
    };
    let [from, to] = [url(&servers[0], PASSWORD), url(&servers[1], PASSWORD)];
    for store in [&from, &to] {
        let store = leasehold::open(store).await.unwrap();
        store.init(&Init::new().with_first_use(true)).await.unwrap();
        store.close().await;
    }
    let both = leasehold::open(&pairs::url(Phase::Both, &from, &to)).await.unwrap();
    shows_nothing(&format!("{both:?} {:?}", both.guarantees()));
    let [old, new] = [leasehold::open(&from).await.unwrap(), leasehold::open(&to).await.unwrap()];
    let fleet = Fleet::survey(&*old, &*new).await.unwrap();
    assert_eq!(fleet.members.len(), 1);
    shows_nothing(&format!("{fleet:?}"));
    let client = LockClient::new(both);
    let guard = client.lock("job").acquire().await.unwrap();
    shows_nothing(&format!("{client:?} {guard:?}"));
    guard.release().await.unwrap();
    client.close().await;

    let wrong = url(&servers[1], &format!("{PASSWORD}!"));
    let error = leasehold::open(&pairs::url(Phase::Both, &from, &wrong)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
    shows_nothing_of(&error);
    let nobody = format!("redis://:{}@127.0.0.1:1", pairs::encoded(PASSWORD));
    let error = leasehold::open(&pairs::url(Phase::Both, &from, &nobody)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    shows_nothing_of(&error);
    // A password that is encoded only once is refused, and not shown.
    let once = format!("migrate:both?from={from}&to=redis://:{PASSWORD}@h");
    shows_nothing_of(&leasehold::open(&once).await.unwrap_err());
    for client in [old, new] {
        client.close().await;
    }
}
