//! Many futures at once: beyond `join!`, `try_join!` and `join_all`, which come from `futures`.
//!
//! The winner is a function of the history: of several that are ready, the one whose outcome
//! came first; of those that never had to wait, the one given first. Those not waited for any
//! more are dropped, which cancels what they wait for. Each future is polled only when something
//! it waits for has come, so thousands of them cost what they must.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context as Wakers, Poll};

use futures_core::Stream;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;

/// All results, in the order given; a failed one does not stop the others.
pub fn all_settled<F: Future>(
    futures: impl IntoIterator<Item = F>,
) -> impl Future<Output = Vec<F::Output>> {
    join_all(futures)
}

/// The first result, and which one it is; nothing if nothing was given. The others are
/// cancelled.
pub fn race<F: Future>(
    futures: impl IntoIterator<Item = F>,
) -> impl Future<Output = Option<(usize, F::Output)>> {
    let mut running = as_completed(futures);
    async move { running.next().await }
}

/// The first `n` results with their places, in the order in which they came. The others are
/// cancelled.
pub fn first_n<F: Future>(
    n: usize,
    futures: impl IntoIterator<Item = F>,
) -> impl Future<Output = Vec<(usize, F::Output)>> {
    let mut running = as_completed(futures);
    async move {
        let mut results = Vec::new();
        while results.len() < n
            && let Some(result) = running.next().await
        {
            results.push(result);
        }
        results
    }
}

/// The first success; the others are cancelled. If all fail, all errors, in the order given.
pub fn first_ok<T, E, F: Future<Output = Result<T, E>>>(
    futures: impl IntoIterator<Item = F>,
) -> impl Future<Output = Result<T, Vec<E>>> {
    let mut running = as_completed(futures);
    async move {
        let mut errors = Vec::new();
        while let Some((place, result)) = running.next().await {
            match result {
                Ok(value) => return Ok(value),
                Err(error) => errors.push((place, error)),
            }
        }
        errors.sort_by_key(|(place, _)| *place);
        Err(errors.into_iter().map(|(_, error)| error).collect())
    }
}

/// Results as they come: await [`next`](AsCompleted::next), or use it as a stream.
pub fn as_completed<F: Future>(futures: impl IntoIterator<Item = F>) -> AsCompleted<F> {
    let running = futures.into_iter().enumerate();
    AsCompleted {
        running: running.map(|(place, f)| Numbered::new(place, f)).collect(),
    }
}

/// `work` for every item, at most `limit` at a time; results in the order of the items. A limit
/// of 0 counts as 1.
pub async fn map_concurrent<I, F: Future>(
    items: impl IntoIterator<Item = I>,
    limit: usize,
    work: impl FnMut(I) -> F,
) -> Vec<F::Output> {
    let results = try_map_concurrent(items, limit, never_failing(work)).await;
    match results {
        Ok(results) => results,
        Err(never) => match never {},
    }
}

/// `work` for every item, at most `limit` at a time. The first error stops: what runs is
/// cancelled, what has not begun never does.
///
/// # Errors
/// The first one that came.
pub async fn try_map_concurrent<I, T, E, F: Future<Output = Result<T, E>>>(
    items: impl IntoIterator<Item = I>,
    limit: usize,
    mut work: impl FnMut(I) -> F,
) -> Result<Vec<T>, E> {
    let mut items = items.into_iter().enumerate();
    let mut start = || items.next().map(|(n, item)| Numbered::new(n, work(item)));
    let mut running = FuturesUnordered::new();
    for _ in 0..limit.max(1) {
        running.extend(start());
    }
    let mut results = Vec::new();
    while let Some((place, result)) = running.next().await {
        results.push((place, result?));
        running.extend(start());
    }
    results.sort_by_key(|(place, _)| *place);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

/// `work` for every item, in chunks: the next chunk begins when all of the one before are done.
/// A size of 0 counts as 1.
pub async fn in_chunks<I, F: Future>(
    items: impl IntoIterator<Item = I>,
    size: usize,
    mut work: impl FnMut(I) -> F,
) -> Vec<F::Output> {
    let mut items = items.into_iter();
    let mut results = Vec::new();
    loop {
        let chunk: Vec<F> = items.by_ref().take(size.max(1)).map(&mut work).collect();
        if chunk.is_empty() {
            return results;
        }
        results.extend(join_all(chunk).await);
    }
}

fn never_failing<I, F: Future>(mut work: impl FnMut(I) -> F) -> impl FnMut(I) -> Unfailing<F> {
    move |item| Unfailing(Box::pin(work(item)))
}

/// A future that cannot fail, as one that could.
struct Unfailing<F>(Pin<Box<F>>);

impl<F: Future> Future for Unfailing<F> {
    type Output = Result<F::Output, std::convert::Infallible>;

    fn poll(mut self: Pin<&mut Self>, wakers: &mut Wakers<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(wakers).map(Ok)
    }
}

/// A future and its place.
struct Numbered<F> {
    place: usize,
    future: Pin<Box<F>>,
}

impl<F> Numbered<F> {
    fn new(place: usize, future: F) -> Self {
        let future = Box::pin(future);
        Self { place, future }
    }
}

impl<F: Future> Future for Numbered<F> {
    type Output = (usize, F::Output);

    fn poll(mut self: Pin<&mut Self>, wakers: &mut Wakers<'_>) -> Poll<Self::Output> {
        let place = self.place;
        let polled = self.future.as_mut().poll(wakers);
        polled.map(|result| (place, result))
    }
}

/// Results as they come, each with its place among the futures given.
#[must_use = "futures do nothing unless awaited"]
pub struct AsCompleted<F> {
    running: FuturesUnordered<Numbered<F>>,
}

impl<F: Future> AsCompleted<F> {
    /// The next result; nothing when all have come.
    pub async fn next(&mut self) -> Option<(usize, F::Output)> {
        self.running.next().await
    }

    /// How many are still to come.
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// Whether all have come.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }
}

impl<F: Future> Stream for AsCompleted<F> {
    type Item = (usize, F::Output);

    fn poll_next(mut self: Pin<&mut Self>, wakers: &mut Wakers<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.running).poll_next(wakers)
    }
}

impl<F> fmt::Debug for AsCompleted<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AsCompleted")
    }
}

#[cfg(test)]
mod tests;
