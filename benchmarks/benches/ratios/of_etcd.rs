//! What is asked of etcd.

use benchmarks::{Children, Contender, bare, call, pairs_of};
use comparison::{Contest, Target};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::duel::{
    Against::One,
    Count, Duel, How,
    Of::{Counted, P50, P99, Rate},
};
use Target::AtLeast;
use Target::AtMost;

const OURS: &str = "leasehold, one client";
const EACH: &str = "leasehold, a client each";
const PLAIN: &str = "grant, Lock and revoke by etcd-client";

/// Cores sleep as they like: what waits for a disk is slower while others are busy.
pub(crate) async fn contests(store: &str, url: &str) -> Vec<Box<dyn Contest>> {
    const TWO: &str = "two transactions: one compares and puts, one compares and deletes";
    let address = url.strip_prefix("etcd://").unwrap().to_owned();
    let ours = Contender::open("leasehold", url).await;
    let plain = Contender::open("lock-api", url).await;
    let Contender::LockApi(client) = &plain else { unreachable!() };
    let floor = bare::Etcd(client.clone());
    let one = Duel::new(store, "acquire + release")
        .counting(log_entries(address))
        .with(TWO, How::Calls(call(move |_| floor.clone().two_transactions())))
        .with(OURS, How::Calls(pairs_of(&ours)))
        .with(PLAIN, How::Calls(pairs_of(&plain)))
        .row("", OURS, One(PLAIN), P50, None)
        .row("", OURS, One(PLAIN), Counted("log entries per lock"), None)
        .row("", OURS, One(TWO), Counted("log entries per lock"), None);
    let mut one_name = Duel::new(store, "16 tasks on one name")
        .with(OURS, How::Tasks(vec![ours]))
        .with(EACH, How::Tasks(Contender::each("leasehold", url, 16).await))
        .with(PLAIN, How::Tasks(vec![plain]));
    for ours in [OURS, EACH] {
        one_name = one_name.row("", ours, One(PLAIN), Rate, AtLeast(4.0)).row(
            "release to acquired",
            ours,
            One(PLAIN),
            P99,
            AtMost(0.1),
        );
    }
    let processes = Duel::new(store, "8 processes × 4 tasks on one name")
        .with("leasehold", How::Processes(Children::start("leasehold", url, 8, 4).await))
        .with(PLAIN, How::Processes(Children::start("lock-api", url, 8, 4).await))
        .row("", "leasehold", One(PLAIN), Rate, AtLeast(1.5));
    vec![one.boxed(), one_name.boxed(), processes.boxed()]
}

/// How many entries of its log the member has carried out.
fn log_entries(address: String) -> Count {
    Box::new(move || {
        let address = address.clone();
        Box::pin(async move {
            let mut stream = TcpStream::connect(&address).await.unwrap();
            let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            let value = |line: &str| {
                line.strip_prefix("etcd_server_proposals_applied_total ")?.trim().parse().ok()
            };
            answer.lines().find_map(value).unwrap()
        })
    })
}
