//! MySQL: guards in its statements.

use std::time::Duration;

use conformance_tests::kit::{Mariadb, MariadbOptions, Proxy, Server as _};
use leasehold::mysql::MysqlFence;
use lock_core::{Env as _, FencingToken, Release, Renewal, SystemEnv};
use sqlx::{Connection as _, MySqlConnection};

use super::{
    cases::{
        a_batch_with_a_locked_row, a_held_name, a_late_renewal, a_release_by_another,
        an_abandoned_owner, below_the_watermark, kept_of_an_abandoned, stale_write, words,
    },
    wire::{Guard, LONG, Stage, Verdict, above, first_use, granted, open, request, try_all},
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
        what: "S1: a name that is held is granted to its holder's repeat only",
        texts: &[(
            "`leasehold_locks`.owner = ? AND `leasehold_locks`.kept",
            "? <> '' AND `leasehold_locks`.kept",
        )],
        case: |stage| Box::pin(a_held_name(stage.url())),
    },
    Guard {
        what: "S2: a name that is not there gets a token above the watermark",
        texts: &[("s.watermark + 1,", "0,")],
        case: |stage| Box::pin(a_name_below_the_watermark(stage)),
    },
    Guard {
        what: "section 4: exclusion is promised by what the server flushes",
        texts: &[("'innodb_flush_log_at_trx_commit',", "'innodb_flush_log_at_elsewhere',")],
        case: |stage| Box::pin(a_server_that_flushes_seldom(stage)),
    },
    Guard {
        what: "S2: a sweep raises the watermark first",
        texts: &[("watermark = GREATEST(watermark, ?)", "watermark = watermark + ? * 0")],
        case: |stage| Box::pin(a_token_over_a_sweep(stage)),
    },
    Guard {
        what: "S6: an abandoned owner finds its tombstone",
        texts: &[("LOCATE(?, `leasehold_locks`.buried) = 0)", "? <> '')")],
        case: |stage| Box::pin(an_abandoned_owner(stage.url())),
    },
    Guard {
        what: "S4: only the owner releases",
        texts: &[("name = ? AND owner = ? AND expires", "name = ? AND ? <> '' AND expires")],
        case: |stage| Box::pin(a_release_by_another(stage.url())),
    },
    Guard {
        what: "S5: a renewal does not bring an expired lease back",
        texts: &[("l.kept = 0 AND l.expires", "l.kept = 0 OR l.expires")],
        case: |stage| Box::pin(a_late_renewal(stage.url())),
    },
    Guard {
        what: "S5: a renewal of many is told by the clock that it was made by",
        texts: &[("l.expires >= ? + g.lease", "l.expires >= 0 * ?")],
        case: |stage| Box::pin(a_late_renewal_among_others(stage.url())),
    },
    Guard {
        what: "L5: a renewal does not wait for a row that another transaction has",
        texts: &[("FOR UPDATE SKIP LOCKED", "FOR UPDATE")],
        case: |stage| Box::pin(a_batch_with_a_locked_row(stage.url(), a_locked_row(stage))),
    },
    Guard {
        what: "S6: to abandon an owner does not end what it keeps",
        texts: &[(
            "`leasehold_locks`.kept = 0, 0, `leasehold_locks`.expires)",
            "`leasehold_locks`.kept < 2, 0, `leasehold_locks`.expires)",
        )],
        case: |stage| Box::pin(kept_of_an_abandoned(stage.url())),
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

async fn a_server_that_flushes_seldom(stage: &mut OneMariadb) -> Verdict {
    let store = first_use(&stage.url()).await;
    if !store.guarantees().exclusion.holds() {
        return Err("a server that flushes each commit is not believed".to_owned());
    }
    let seldom = "SET GLOBAL innodb_flush_log_at_trx_commit = 2";
    stage.server.sql(seldom).await.map_err(words)?;
    match open(&stage.url()).await.guarantees().exclusion.holds() {
        true => Err("exclusion is promised, and a crash may lose what is held".to_owned()),
        false => Ok(()),
    }
}

async fn a_late_renewal_among_others(url: String) -> Verdict {
    let store = first_use(&url).await;
    let late = granted(&*store, &request("a", Duration::from_millis(300))).await?;
    let held = granted(&*store, &request("b", LONG)).await?;
    tokio::time::sleep(Duration::from_millis(600)).await;
    let answers = store.renew(&[&late, &held], SystemEnv.now()).await;
    match answers[..] {
        [Renewal::Lost(_), Renewal::Renewed { .. }] => Ok(()),
        _ => Err(format!("one of two was too late: {answers:?}")),
    }
}

/// A transaction that has the row of `a`.
async fn a_locked_row(stage: &OneMariadb) -> Result<MySqlConnection, String> {
    let url = format!("mysql://root@{}/test?ssl-mode=disabled", stage.server.address());
    let mut session = MySqlConnection::connect(&url).await.map_err(words)?;
    let lock = "BEGIN; SELECT * FROM leasehold_locks WHERE name = 'a' FOR UPDATE";
    sqlx::raw_sql(lock).execute(&mut session).await.map_err(words)?;
    Ok(session)
}

async fn a_name_below_the_watermark(stage: &mut OneMariadb) -> Verdict {
    let lead = "UPDATE leasehold_settings \
                SET watermark = ROUND(UNIX_TIMESTAMP(NOW(6)) * 1000000) + 5000000";
    below_the_watermark!(stage, lead, "SELECT watermark FROM leasehold_settings")
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

async fn a_stale_write(stage: &mut OneMariadb) -> Verdict {
    stale_write!(MysqlFence, MySqlConnection, stage.plain()).await
}
