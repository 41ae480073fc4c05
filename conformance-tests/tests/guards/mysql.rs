//! MySQL: guards in its statements.

use std::time::Duration;

use conformance_tests::kit::{Mariadb, MariadbOptions, Proxy, Server as _};
use leasehold::mysql::MysqlFence;
use lock_core::{Env as _, FencingToken, Release, Renewal, SystemEnv};
use sqlx::{Connection as _, MySqlConnection};

use super::wire::{
    Guard, LONG, Stage, Verdict, above, first_use, granted, not_granted, request, try_all,
};

struct OneMariadb {
    server: Mariadb,
    proxy: Proxy,
}

impl OneMariadb {
    /// As the driver knows it.
    fn plain(&self) -> String {
        format!("mysql://root@{}/test?ssl-mode=disabled", self.proxy.address())
    }

    fn url(&self) -> String {
        self.plain() + "&timeout=30s"
    }
}

#[async_trait::async_trait]
impl Stage for OneMariadb {
    async fn start(texts: &[(&str, &str)]) -> Self {
        let server = Mariadb::start(MariadbOptions::new()).await.unwrap();
        let proxy = Proxy::altering(server.address(), texts).await.unwrap();
        Self { server, proxy }
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }
}

const GUARDS: &[Guard<OneMariadb>] = &[
    Guard {
        what: "S2: a name that is not there gets a token above the watermark",
        texts: &[("s.watermark + 1,", "0,")],
        case: |stage| Box::pin(a_name_below_the_watermark(stage)),
    },
    Guard {
        what: "S2: a sweep raises the watermark first",
        texts: &[("watermark = GREATEST(watermark, ?)", "watermark = watermark + ? * 0")],
        case: |stage| Box::pin(a_token_over_a_sweep(stage)),
    },
    Guard {
        what: "S6: an abandoned owner finds its tombstone",
        texts: &[("LOCATE(?, `leasehold_locks`.buried) = 0)", "? <> '')")],
        case: |stage| Box::pin(an_abandoned_owner(stage)),
    },
    Guard {
        what: "S4: only the owner releases",
        texts: &[("name = ? AND owner = ? AND expires", "name = ? AND ? <> '' AND expires")],
        case: |stage| Box::pin(a_release_by_another(stage)),
    },
    Guard {
        what: "S5: a renewal does not bring an expired lease back",
        texts: &[("l.kept = 0 AND l.expires", "l.kept = 0 OR l.expires")],
        case: |stage| Box::pin(a_late_renewal(stage)),
    },
    Guard {
        what: "section 2: the fence refuses a lower token",
        texts: &[("LAST_INSERT_ID(GREATEST(token, ?))", "LAST_INSERT_ID(GREATEST(?, 0))")],
        case: |stage| Box::pin(a_stale_write(stage)),
    },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_guard_of_mysql_is_missed_when_it_is_left_out() {
    try_all(GUARDS).await;
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

async fn a_name_below_the_watermark(stage: &mut OneMariadb) -> Verdict {
    let store = first_use(&stage.url()).await;
    let lead = "UPDATE leasehold_settings \
                SET watermark = ROUND(UNIX_TIMESTAMP(NOW(6)) * 1000000) + 5000000";
    stage.server.sql(lead).await.map_err(words)?;
    let watermark = stage.server.sql("SELECT watermark FROM leasehold_settings").await;
    let watermark: u64 = watermark.map_err(words)?.parse().map_err(words)?;
    let grant = granted(&*store, &request("new", LONG)).await?;
    match grant.token.get() > watermark {
        true => Ok(()),
        false => Err(format!("token {} came after the watermark {watermark}", grant.token)),
    }
}

async fn a_token_over_a_sweep(stage: &mut OneMariadb) -> Verdict {
    let store = first_use(&stage.url()).await;
    let mut asked = request("a", LONG);
    // It leads the clock, as one of a store whose clock was ahead.
    asked.floor = FencingToken::new(SystemEnv.wall_micros() + 25_000_000).unwrap();
    let first = granted(&*store, &asked).await?;
    store.release(&first, Release::default()).await.map_err(words)?;
    // A client sweeps once in a thousand releases.
    for _ in 0..1_001 {
        let grant = granted(&*store, &request("busy", LONG)).await?;
        store.release(&grant, Release::default()).await.map_err(words)?;
    }
    let rows = "SELECT count(*) FROM leasehold_locks WHERE name = 'a'";
    if stage.server.sql(rows).await.map_err(words)? != "0" {
        return Err("nothing was swept".to_owned());
    }
    above(&first, &granted(&*store, &request("a", LONG)).await?)
}

async fn an_abandoned_owner(stage: &mut OneMariadb) -> Verdict {
    let store = first_use(&stage.url()).await;
    let given_up = request("a", LONG);
    store.abandon(&given_up).await.map_err(words)?;
    not_granted(&*store, &given_up).await
}

async fn a_release_by_another(stage: &mut OneMariadb) -> Verdict {
    let store = first_use(&stage.url()).await;
    let mut other = granted(&*store, &request("a", LONG)).await?;
    other.owner = request("a", LONG).owner;
    let _ = store.release(&other, Release::default()).await;
    not_granted(&*store, &request("a", LONG)).await
}

async fn a_late_renewal(stage: &mut OneMariadb) -> Verdict {
    let store = first_use(&stage.url()).await;
    let grant = granted(&*store, &request("a", Duration::from_millis(300))).await?;
    tokio::time::sleep(Duration::from_millis(600)).await;
    match store.renew(&[&grant], SystemEnv.now()).await.pop() {
        Some(Renewal::Renewed { .. }) => Err("an expired lease was renewed".to_owned()),
        _ => Ok(()),
    }
}

async fn a_stale_write(stage: &mut OneMariadb) -> Verdict {
    let fence = MysqlFence::new("fenced").unwrap();
    let mut session = MySqlConnection::connect(&stage.plain()).await.map_err(words)?;
    fence.create(&mut session).await.map_err(words)?;
    let [one, two] = [1, 2].map(|token| FencingToken::new(token).unwrap());
    fence.admit(&mut session, "data", two).await.map_err(words)?.map_err(words)?;
    match fence.admit(&mut session, "data", one).await.map_err(words)? {
        Err(_) => Ok(()),
        Ok(()) => Err("a stale token was admitted".to_owned()),
    }
}
