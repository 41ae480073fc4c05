//! SQLite: guards in its statements. No wire lies between the library and its file, so the texts are
//! replaced in a copy of this program, as many bytes by as many.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, time::Duration};

use leasehold::sqlite::SqliteFence;
use lock_core::{Env as _, FencingToken, Release, Renewal, SystemEnv};
use sqlx::{Connection as _, SqliteConnection};

use super::{
    cases::kept_of_an_abandoned,
    left_out::{self, Ended},
    wire::{LONG, above, first_use, granted, not_granted, open, request},
};

struct Guard {
    what: &'static str,
    texts: &'static [(&'static str, &'static str)],
    /// A test of this file.
    case: &'static str,
}

const GUARDS: &[Guard] = &[
    Guard {
        what: "S1: a name that is held is not granted",
        texts: &[(
            "WHERE l.owner IS NULL OR (l.owner = ?2 AND NOT l.kept) OR {over ?5 ?6}",
            "WHERE true",
        )],
        case: "a_held_name_is_not_granted",
    },
    Guard {
        what: "section 5: a row of another boot counts as held",
        texts: &[("(l.epoch = {epoch} AND l.expires <= {now})", "(l.expires <= {now})")],
        case: "a_row_of_another_boot_is_held",
    },
    Guard {
        what: "section 5: a row of another boot counts as held for its full lease from when it is seen",
        texts: &[(" AND s.until <= {now}", "")],
        case: "a_row_of_another_boot_is_held",
    },
    Guard {
        what: "section 5: a row of another clock that was renewed is seen anew",
        texts: &[(" AND s.version = l.version", "")],
        case: "a_row_of_another_clock_is_held_while_it_is_renewed",
    },
    Guard {
        what: "S2: a name that is not there gets a token above the watermark",
        texts: &[("max(?7, s.watermark + 1, ?8)", "max(?7, ?8)")],
        case: "a_token_over_a_sweep",
    },
    Guard {
        what: "S2: a sweep raises the watermark, and forgets only tokens that it covers",
        texts: &[
            ("SET watermark = max(watermark, (", "SET watermark = min(watermark, ("),
            ("AND token <= (SELECT watermark FROM {settings})", ""),
        ],
        case: "a_token_over_a_sweep",
    },
    Guard {
        what: "S2: the token of a free name is above its last",
        texts: &[("max(?7, l.token + 1, ?8)", "max(?7, ?8)")],
        case: "a_token_above_the_last",
    },
    Guard {
        what: "S2: so where this client left the name behind",
        texts: &[("token = max(?7, token + 1, ?8)", "token = max(?7, ?8)")],
        case: "a_token_above_the_last_of_the_same_client",
    },
    Guard {
        what: "S4: only the owner releases",
        texts: &[("owner = ?2 AND (epoch <> ?4", "?2 <> '' AND (epoch <> ?4")],
        case: "a_release_by_another_frees_nothing",
    },
    Guard {
        what: "S5: a renewal does not bring an expired lease back",
        texts: &[("(l.epoch <> ?2 OR l.expires > ?1)", "true")],
        case: "a_late_renewal_is_a_loss",
    },
    Guard {
        what: "S6: an abandoned owner finds its tombstone",
        texts: &[("NOT EXISTS (SELECT 1 FROM {abandoned} AS a WHERE a.owner = ?2)", "true")],
        case: "an_abandoned_owner_takes_nothing",
    },
    Guard {
        what: "S6: to abandon an owner does not end what it keeps",
        texts: &[("name = ?1 AND NOT kept AND owner = ?2", "name = ?1 AND owner = ?2")],
        case: "what_is_kept_stays_when_its_owner_is_abandoned",
    },
    Guard {
        what: "section 2: the fence refuses a lower token",
        texts: &[("WHERE excluded.token >= token", "WHERE true")],
        case: "a_stale_write_is_refused",
    },
];

/// This program with other texts.
fn altered(texts: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let mut bytes = fs::read(std::env::current_exe().unwrap()).unwrap();
    for (from, to) in texts {
        // Where the list above itself has it, a guard stands between quotes that are none in memory: all
        // places are altered, and one of them at least must be a statement's.
        let found: Vec<_> = places(&bytes, from.as_bytes());
        assert!(found.len() > 1, "{from:?} is in no statement");
        let mut to = to.as_bytes().to_vec();
        assert!(to.len() <= from.len());
        to.resize(from.len(), b' ');
        for at in found {
            bytes[at..at + to.len()].copy_from_slice(&to);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guards");
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    (folder, path)
}

fn places(bytes: &[u8], wanted: &[u8]) -> Vec<usize> {
    let (first, mut found, mut at) = (wanted[0], Vec::new(), 0);
    while let Some(next) = bytes[at..].iter().position(|byte| *byte == first) {
        at += next;
        if bytes[at..].starts_with(wanted) {
            found.push(at);
        }
        at += 1;
    }
    found
}

#[test]
fn each_guard_of_sqlite_is_missed_when_it_is_left_out() {
    left_out::try_all(GUARDS.len(), |at| {
        let Guard { what, texts, case } = &GUARDS[at];
        let (_folder, program) = altered(texts);
        let ended = left_out::run(&program, &format!("sqlite::{case}"), None);
        ((*what).to_owned(), ended)
    });
    // The copy itself is no reason to fail.
    let (_folder, program) = altered(&[]);
    let ended = left_out::run(&program, "sqlite::a_held_name_is_not_granted", None);
    assert!(matches!(ended, Ended::Passed), "{ended:?}");
}

struct File {
    _folder: tempfile::TempDir,
    path: String,
}

impl File {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db").display().to_string();
        Self { _folder: folder, path }
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.path)
    }

    async fn raw(&self) -> SqliteConnection {
        SqliteConnection::connect(&self.url()).await.unwrap()
    }
}

/// A token that leads the clock, as one of a store whose clock was ahead.
fn ahead() -> FencingToken {
    FencingToken::new(SystemEnv.wall_micros() + 25_000_000).unwrap()
}

#[tokio::test]
async fn a_held_name_is_not_granted() {
    let file = File::new();
    granted(&*first_use(&file.url()).await, &request("a", LONG)).await.unwrap();
    not_granted(&*open(&file.url()).await, &request("a", LONG)).await.unwrap();
}

#[tokio::test]
async fn a_row_of_another_boot_is_held() {
    let file = File::new();
    granted(&*first_use(&file.url()).await, &request("a", LONG)).await.unwrap();
    // By the clock of this boot its lease is long over.
    let theirs = "UPDATE leasehold_locks SET epoch = 'theirs', expires = 1";
    sqlx::query(theirs).execute(&mut file.raw().await).await.unwrap();
    let store = open(&file.url()).await;
    for _ in 0..2 {
        not_granted(&*store, &request("a", LONG)).await.unwrap();
    }
}

#[tokio::test]
async fn a_row_of_another_clock_is_held_while_it_is_renewed() {
    let file = File::new();
    let lease = Duration::from_millis(300);
    granted(&*first_use(&file.url()).await, &request("a", lease)).await.unwrap();
    let theirs = "UPDATE leasehold_locks SET epoch = 'theirs', expires = 1";
    sqlx::query(theirs).execute(&mut file.raw().await).await.unwrap();
    let store = open(&file.url()).await;
    not_granted(&*store, &request("a", LONG)).await.unwrap();
    let renewed = "UPDATE leasehold_locks SET version = version + 1";
    sqlx::query(renewed).execute(&mut file.raw().await).await.unwrap();
    tokio::time::sleep(2 * lease).await;
    not_granted(&*store, &request("a", LONG)).await.unwrap();
}

#[tokio::test]
async fn a_token_over_a_sweep() {
    let file = File::new();
    let store = first_use(&file.url()).await;
    let mut asked = request("a", LONG);
    asked.floor = ahead();
    let first = granted(&*store, &asked).await.unwrap();
    store.release(&first, Release::default()).await.unwrap();
    let rows = async || {
        let count = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM leasehold_locks");
        count.fetch_one(&mut file.raw().await).await.unwrap()
    };
    // A client sweeps once in a thousand releases.
    for number in 0..1_100 {
        let busy = granted(&*store, &request(&format!("busy {number}"), LONG)).await.unwrap();
        store.release(&busy, Release::default()).await.unwrap();
    }
    assert!(rows().await < 1_000, "nothing was swept");
    above(&first, &granted(&*store, &request("a", LONG)).await.unwrap()).unwrap();
}

#[tokio::test]
async fn a_token_above_the_last() {
    let file = File::new();
    let store = first_use(&file.url()).await;
    let mut asked = request("a", LONG);
    asked.floor = ahead();
    let first = granted(&*store, &asked).await.unwrap();
    store.release(&first, Release::default()).await.unwrap();
    let other = open(&file.url()).await;
    above(&first, &granted(&*other, &request("a", LONG)).await.unwrap()).unwrap();
}

#[tokio::test]
async fn a_token_above_the_last_of_the_same_client() {
    let file = File::new();
    let store = first_use(&(file.url() + "?strategy=optimistic")).await;
    let mut asked = request("a", LONG);
    asked.floor = ahead();
    let first = granted(&*store, &asked).await.unwrap();
    store.release(&first, Release::default()).await.unwrap();
    above(&first, &granted(&*store, &request("a", LONG)).await.unwrap()).unwrap();
}

#[tokio::test]
async fn a_release_by_another_frees_nothing() {
    let file = File::new();
    let store = first_use(&file.url()).await;
    let mut other = granted(&*store, &request("a", LONG)).await.unwrap();
    other.owner = request("a", LONG).owner;
    let _ = store.release(&other, Release::default()).await;
    not_granted(&*store, &request("a", LONG)).await.unwrap();
}

#[tokio::test]
async fn a_late_renewal_is_a_loss() {
    let file = File::new();
    let store = first_use(&file.url()).await;
    let grant = granted(&*store, &request("a", Duration::from_millis(300))).await.unwrap();
    tokio::time::sleep(Duration::from_millis(400)).await;
    let answer = store.renew(&[&grant], SystemEnv.now()).await.pop();
    assert!(matches!(answer, Some(Renewal::Lost(_))), "{answer:?}");
}

#[tokio::test]
async fn an_abandoned_owner_takes_nothing() {
    for strategy in ["primary-key", "optimistic"] {
        let file = File::new();
        let store = first_use(&format!("{}?strategy={strategy}", file.url())).await;
        let given_up = request("a", LONG);
        store.abandon(&given_up).await.unwrap();
        not_granted(&*store, &given_up).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_kept_stays_when_its_owner_is_abandoned() {
    let file = File::new();
    kept_of_an_abandoned(file.url()).await.unwrap();
}

#[tokio::test]
async fn a_stale_write_is_refused() {
    let file = File::new();
    drop(first_use(&file.url()).await);
    let fence = SqliteFence::new("fenced").unwrap();
    let mut session = file.raw().await;
    fence.create(&mut session).await.unwrap();
    let [one, two] = [1, 2].map(|token| FencingToken::new(token).unwrap());
    fence.admit(&mut session, "data", two).await.unwrap().unwrap();
    fence.admit(&mut session, "data", one).await.unwrap().unwrap_err();
}
