#[tokio::main]
async fn main() -> Result<(), leasehold::Error> {
    let client = leasehold::connect("redis://localhost").await?;
    let guard = client.lock("order-17").acquire().await?;
    println!("locked, with fencing token {}", guard.token());
    guard.release().await
}
