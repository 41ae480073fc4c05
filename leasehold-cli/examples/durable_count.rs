//! A COMMAND that counts a latch down in a SQLite database of its own, under a lock and fenced: a
//! worker that lost its lock counts nothing, and the count outlives every process and every lease.
//!
//! ```text
//! durable_count FILE 3                          makes a latch of three
//! leasehold run batch-7 -- durable_count FILE   counts it down by one
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
    let fence = SqliteFence::new("latch")?;
    if let Some(count) = args.next() {
        fence.create(&mut *pool.acquire().await?).await?;
        sqlx::query("CREATE TABLE latch (name TEXT PRIMARY KEY, open INTEGER NOT NULL)")
            .execute(&pool)
            .await?;
        sqlx::query("INSERT INTO latch VALUES ('batch-7', ?)")
            .bind(count.parse::<i64>()?)
            .execute(&pool)
            .await?;
        println!("{count} are open");
        return Ok(());
    }

    let token = std::env::var("LEASEHOLD_TOKEN")?.parse().ok().and_then(FencingToken::new);
    let token = token.ok_or("LEASEHOLD_TOKEN is no fencing token")?;
    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
    match fence.admit(&mut transaction, "batch-7", token).await {
        Err(FenceError::Stale(stale)) => {
            transaction.rollback().await?;
            println!("not counted: {stale}");
            return Ok(());
        }
        admitted => admitted?,
    }
    let count =
        "UPDATE latch SET open = open - 1 WHERE name = 'batch-7' AND open > 0 RETURNING open";
    let open: Option<i64> = sqlx::query_scalar(count).fetch_optional(&mut *transaction).await?;
    transaction.commit().await?;
    match open {
        Some(0) => println!("the last one is done"),
        Some(open) => println!("{open} are open"),
        None => println!("all were done before"),
    }
    Ok(())
}
