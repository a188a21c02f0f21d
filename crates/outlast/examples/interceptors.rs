//! Interceptors: what every call needs and none is about, written once.
//!
//! A tenant travels in a header from the client to every activity, and a log says what was done
//! for whom. The workflow knows of neither.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::sync::Arc;

use outlast::Headers;
use outlast::intercept::{
    ActivityInterceptor, Attempt, AttemptFuture, AttemptNext, Interceptor, Propagate,
};
use outlast::prelude::*;

/// Says what was done, and for whom.
struct Log;

impl Interceptor for Log {
    // It is about attempts; it could be about clients and about workflow code as well.
    fn activity(&self) -> Option<Arc<dyn ActivityInterceptor>> {
        Some(Arc::new(Self))
    }
}

impl ActivityInterceptor for Log {
    fn execute(&self, attempt: Attempt, next: AttemptNext) -> AttemptFuture {
        let line = format!("{}: {}", tenant(&attempt.headers), attempt.name());
        // What comes next is another interceptor, or the activity.
        let inner = next.run(attempt);
        Box::pin(async move {
            let result = inner.await;
            println!("{line}");
            result
        })
    }
}

fn tenant(headers: &Headers) -> String {
    let found = headers.read("tenant").ok().flatten();
    found.unwrap_or_else(|| "nobody".to_owned())
}

#[activity]
async fn charge(cents: u64) -> Result<u64> {
    Ok(cents)
}

// An activity that wants to know reads its headers.
#[activity]
async fn ship(ctx: ActivityCtx) -> Result<String> {
    Ok(format!("a parcel for {}", tenant(&ctx.headers())))
}

#[workflow]
async fn order(ctx: Ctx, cents: u64) -> Result<String> {
    ctx.run(charge, cents).await?;
    Ok(ctx.run(ship, ()).await?)
}

/// The headers of a call for this tenant.
fn on_behalf_of(tenant: &str) -> Result<Headers> {
    let mut headers = Headers::new();
    headers.write("tenant", tenant)?;
    Ok(headers)
}

#[tokio::main]
async fn main() -> Result<()> {
    let builder = Outlast::sqlite("interceptors.db");
    let builder = builder.activity(charge).activity(ship).workflow(order);
    // In this order: the first is the outermost.
    let builder = builder.interceptor(Propagate::new("tenant"));
    let app = builder.interceptor(Log).start().await?;

    for tenant in ["acme", "initech"] {
        let call = app.run(order, 500).headers(on_behalf_of(tenant)?);
        println!("{}", call.await?);
    }
    app.shutdown().await.into_result()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[outlast::test]
    async fn a_parcel_goes_to_whoever_the_client_spoke_for(env: TestEnv) -> Result<()> {
        let env = env.activity(charge).activity(ship).workflow(order);
        let app = env.interceptor(Propagate::new("tenant")).start().await;
        let call = app.run(order, 500).headers(on_behalf_of("acme")?);
        assert_eq!(call.await?, "a parcel for acme");
        assert_eq!(app.run(order, 500).await?, "a parcel for nobody");
        Ok(())
    }
}
