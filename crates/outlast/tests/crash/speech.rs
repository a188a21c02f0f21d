//! What a client says to runs beyond signals: starts with a message, updates, questions,
//! promises, and many signals at once.

use std::ops::RangeInclusive;
use std::time::Duration;

use futures::future::join_all;
use outlast::model::Refusal;
use outlast::{CallError, Query, Signal, Update};

use crate::client::{Ack, Client, Contract};

/// Updates take and give a number.
pub(crate) type Asked = Update<u64, u64>;

impl Client {
    /// A start that brings a signal; the start of the same name is the same request.
    pub(crate) async fn signal_with_start(
        &self,
        kind: &'static str,
        name: &str,
        signal: Signal<u64>,
        n: u64,
    ) {
        let (id, request) = (self.id(name), format!("{}-{n}", signal.name()));
        self.ask(async || {
            let start = self.app.start(Contract::new(kind), &self.case);
            let start = start.id(&id).request_id(name);
            let sent = start.with_signal(|run| run.send(signal, n).request_id(&request));
            sent.await?;
            let (id, request) = (id.clone(), request.clone());
            Ok(Ack::Signaled { id, request })
        })
        .await;
    }

    /// The same with one id for the whole request.
    pub(crate) async fn signal_and_start(
        &self,
        kind: &'static str,
        name: &str,
        signal: Signal<u64>,
        n: u64,
    ) {
        self.ask(async || {
            let start = self.app.start(Contract::new(kind), &self.case);
            let start = start.id(self.id(name)).request_id("both");
            start.with_signal(|run| run.send(signal, n)).await?;
            let (id, request) = (self.id(name), "both".to_owned());
            Ok(Ack::Signaled { id, request })
        })
        .await;
    }

    /// Sends all of them at once, in order, until all are acknowledged.
    pub(crate) async fn storm(&self, name: &str, signal: Signal<u64>, all: RangeInclusive<u64>) {
        let (first, last) = (*all.start(), *all.end());
        for n in [first, last] {
            let (id, request) = (self.id(name), format!("{}-{n}", signal.name()));
            self.ask(async || {
                let send = |n| {
                    let request = format!("{}-{n}", signal.name());
                    self.run(name)
                        .send(signal, n)
                        .request_id(request)
                        .into_future()
                };
                for answer in join_all((first..=last).map(send)).await {
                    answer?;
                }
                let (id, request) = (id.clone(), request.clone());
                Ok(Ack::Signaled { id, request })
            })
            .await;
        }
    }

    /// An update and its answer.
    pub(crate) async fn update(&self, name: &str, update: Asked, n: u64, id: &str) {
        self.ask(async || {
            let asked = self.run(name).update(update, n).id(id);
            self.answered(name, id, asked.await)
        })
        .await;
    }

    /// An update, until it is accepted.
    pub(crate) async fn accept(&self, name: &str, update: Asked, n: u64, id: &str) {
        self.ask(async || {
            let asked = self.run(name).update(update, n).id(id);
            asked.accepted().await?;
            let (id, update) = (self.id(name), id.to_owned());
            Ok(Ack::Accepted { id, update })
        })
        .await;
    }

    pub(crate) async fn update_with_start(
        &self,
        kind: &'static str,
        name: &str,
        (update, n): (Asked, u64),
        id: &str,
    ) {
        self.ask(async || {
            let start = self.app.start(Contract::new(kind), &self.case);
            let start = start.id(self.id(name)).request_id(name);
            let asked = start.with_update(|run| run.update(update, n).id(id));
            self.answered(name, id, asked.await.map(|(_, answer)| answer))
        })
        .await;
    }

    fn answered(
        &self,
        name: &str,
        update: &str,
        answer: Result<u64, CallError>,
    ) -> Result<Ack, CallError> {
        let is_rejected = matches!(answer, Err(CallError::Rejected(_)));
        let text = match answer {
            Ok(n) => n.to_string(),
            Err(CallError::Refused(refusal)) => return Err(refusal.into()),
            Err(error) => format!("error: {error}"),
        };
        let (id, update) = (self.id(name), update.to_owned());
        Ok(Ack::Updated {
            id,
            update,
            text,
            is_rejected,
        })
    }

    /// A question; that it changes nothing is part of the answer.
    pub(crate) async fn query(&self, name: &str, query: Query<(), String>) {
        self.ask(async || {
            let before = self.run(name).history().await?;
            let answer = self.run(name).query(query, ()).await?;
            let after = self.run(name).history().await?;
            let is_same = before == after;
            let text = format!("{answer}, nothing has changed: {is_same}");
            Ok(Ack::Answered { text })
        })
        .await;
    }

    /// Gives a promise its value, by its name.
    pub(crate) async fn resolve(&self, name: &str, promise: &str, n: u64) {
        let handle = self.app.promise::<u64>(self.id(name), promise);
        self.ask(async || {
            unless_settled(handle.resolve(n).await)?;
            self.settled(name, promise)
        })
        .await;
    }

    pub(crate) async fn reject(&self, name: &str, promise: &str, why: &'static str) {
        let handle = self.app.promise::<u64>(self.id(name), promise);
        self.ask(async || {
            unless_settled(handle.reject(why).await)?;
            self.settled(name, promise)
        })
        .await;
    }

    fn settled(&self, name: &str, promise: &str) -> Result<Ack, CallError> {
        let (id, promise) = (self.id(name), promise.to_owned());
        Ok(Ack::Settled { id, promise })
    }

    /// The token, when it has been handed out.
    async fn token(&self) -> String {
        loop {
            if let Some(token) = self.world().token() {
                return token;
            }
            // Nobody waits for the end of a run, so time passes only if it is told to.
            self.clock.advance(&self.app, Duration::from_millis(100));
            tokio::task::yield_now().await;
        }
    }

    /// Settles a promise by the token that was handed out.
    pub(crate) async fn resolve_token(&self, n: u64) {
        self.ask(async || {
            let token = self.token().await;
            unless_settled(self.app.resolve_token(&token, n).await)?;
            Ok(Ack::Seen)
        })
        .await;
    }
}

/// Whoever settles it again hears that it is settled: that is what was wanted.
fn unless_settled(outcome: Result<(), CallError>) -> Result<(), CallError> {
    match outcome {
        Err(CallError::Refused(Refusal::AlreadyResolved { .. })) => Ok(()),
        outcome => outcome,
    }
}
