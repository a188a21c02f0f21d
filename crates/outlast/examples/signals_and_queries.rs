//! A workflow that the world talks to: signals change its state, queries look at it.
//!
//! `Ok` from a signal means that it is on disk. A query is answered from the settled state, is
//! never recorded, and works after the end of the run too.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use outlast::prelude::*;

/// What the handlers share with `run`. Each run has its own.
#[derive(Default)]
struct Cart {
    items: Vec<String>,
    is_checked_out: bool,
}

#[workflow]
impl Cart {
    // `run` lives as long as the cart, so it cannot hold `self`: it borrows the state for a
    // moment with `ctx.read` or `ctx.with`, and waits for a condition on it.
    async fn run(ctx: Ctx<Self>, owner: String) -> Result<String> {
        ctx.wait_until(|cart| cart.is_checked_out).await?;
        Ok(ctx.read(|cart| format!("{owner} bought {}", cart.items.join(" and "))))
    }

    #[signal]
    fn add(&mut self, item: String) {
        self.items.push(item);
    }

    #[signal]
    fn check_out(&mut self) {
        self.is_checked_out = true;
    }

    #[query]
    fn count(&self) -> usize {
        self.items.len()
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let builder = Outlast::sqlite("signals_and_queries.db");
    let app = builder.workflow(Cart::run).start().await?;

    // The handle has a method per handler.
    let cart = app.start(Cart::run, "Kari").await?;
    cart.add("tea").await?;
    cart.add("a mug").await?;
    println!("items in the cart: {}", cart.count().await?);

    cart.check_out().await?;
    println!("{}", cart.result().await?);
    println!("items, asked after the end: {}", cart.count().await?);
    app.shutdown().await.into_result()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[outlast::test]
    async fn what_was_added_before_the_check_out_is_bought(env: TestEnv) -> Result<()> {
        let app = env.workflow(Cart::run).start().await;
        let cart = app.start(Cart::run, "Ola").await?;
        assert_eq!(cart.count().await?, 0);
        cart.add("coffee").await?;
        assert_eq!(cart.count().await?, 1);
        cart.check_out().await?;
        assert_eq!(cart.result().await?, "Ola bought coffee");
        Ok(())
    }

    #[test]
    fn handlers_are_plain_methods() {
        let mut cart = Cart::default();
        cart.add("tea".into());
        assert_eq!(cart.count(), 1);
    }
}
