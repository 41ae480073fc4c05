//! A COMMAND that writes to a SQLite database of its own and is fenced: a write that comes after a
//! later holder's is refused, and rolls back.
//!
//! ```text
//! leasehold run report -- fenced_write FILE TEXT    writes TEXT
//! fenced_write FILE                                 prints what was written
//! ```

use std::error::Error;

use leasehold::{FenceError, FencingToken, sqlite::SqliteFence};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let file = args.next().ok_or("which file?")?;
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS report (text TEXT NOT NULL)").execute(&pool).await?;
    let Some(text) = args.next() else {
        for line in
            sqlx::query_scalar::<_, String>("SELECT text FROM report").fetch_all(&pool).await?
        {
            println!("{line}");
        }
        return Ok(());
    };

    let token = std::env::var("LEASEHOLD_TOKEN")?.parse().ok().and_then(FencingToken::new);
    let token = token.ok_or("LEASEHOLD_TOKEN is no fencing token")?;
    let fence = SqliteFence::new("report")?;
    fence.create(&mut *pool.acquire().await?).await?;

    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query("INSERT INTO report (text) VALUES (?)")
        .bind(&text)
        .execute(&mut *transaction)
        .await?;
    // The order does not matter within the transaction: a refused write is not committed.
    match fence.admit(&mut transaction, "report", token).await {
        Err(FenceError::Stale(stale)) => {
            transaction.rollback().await?;
            println!("refused {text}: {stale}");
        }
        admitted => {
            admitted?;
            transaction.commit().await?;
            println!("wrote {text}");
        }
    }
    Ok(())
}
