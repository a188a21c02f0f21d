//! A saga: what was done is undone, last first, when a later part fails.
//!
//! `.undo(free_seat)` takes the value the call gave, so the compiler checks that they fit. It also
//! runs when the workflow is cancelled, and it is out of reach of that cancel. A call that is no
//! longer waited for stays registered. `.undo_with(..)` needs no result: money comes back also
//! where it is not known whether the card was charged.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use outlast::prelude::*;

#[activity]
async fn charge(cents: u64) -> Result<u64> {
    println!("charged {cents}");
    Ok(cents)
}

#[activity]
async fn refund(cents: u64) -> Result<()> {
    println!("refunded {cents}");
    Ok(())
}

#[activity]
async fn book_seat(seat: String) -> Result<String> {
    println!("booked {seat}");
    Ok(seat)
}

#[activity]
async fn free_seat(seat: String) -> Result<()> {
    println!("freed {seat}");
    Ok(())
}

#[activity]
async fn print_ticket(seat: String) -> Result<String> {
    if seat == "13F" {
        // A terminal error is not tried again.
        return Err(Error::msg("there is no row 13").terminal());
    }
    Ok(format!("ticket for {seat}"))
}

#[workflow]
async fn travel(ctx: Ctx, seat: String) -> Result<String> {
    ctx.run(charge, 900).undo_with(refund, 900).await?;
    ctx.run(book_seat, &seat).undo(free_seat).await?;
    Ok(ctx.run(print_ticket, &seat).await?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let app = Outlast::sqlite("saga.db")
        .activity(charge)
        .activity(refund)
        .activity(book_seat)
        .activity(free_seat)
        .activity(print_ticket)
        .workflow(travel)
        .start()
        .await?;

    println!("{}", app.run(travel, "12A").await?);
    if let Err(failed) = app.run(travel, "13F").await {
        println!("no ticket: {}", failed.trace().root().message);
    }
    app.shutdown().await.into_result()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[outlast::test]
    async fn the_last_thing_done_is_the_first_undone(env: TestEnv) -> Result<()> {
        let undone = Arc::new(Mutex::new(Vec::new()));
        let (money, seat) = (undone.clone(), undone.clone());
        let note = |list: &Mutex<Vec<String>>, text: String| {
            list.lock().expect("nobody panicked").push(text);
        };
        let env = env.workflow(travel).activity(charge).activity(book_seat);
        let app = env
            .mock(print_ticket, |_| Err(Error::msg("no paper").terminal()))
            .mock(refund, move |cents| {
                note(&money, cents.to_string());
                Ok(())
            })
            .mock(free_seat, move |name| {
                note(&seat, name);
                Ok(())
            })
            .start()
            .await;
        let failed = app.run(travel, "1A").await;
        assert!(failed.is_err());
        let undone = undone.lock().expect("nobody panicked");
        assert_eq!(*undone, ["1A", "900"]);
        Ok(())
    }
}
