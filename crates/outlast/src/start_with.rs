//! A start that brings a message along: to the new run before any of its code runs, or to the
//! run that is open already. Both reach the store together, or neither does.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use outlast_model::WorkflowId;
use outlast_model::start::{ConflictPolicy, UpdateStage};
use outlast_model::view::RunRef;

use crate::call_error::CallError;
use crate::error::Error;
use crate::failure::IntoFailure;
use crate::handle::Handle;
use crate::signal::Sent;
use crate::start::{Start, Starting};
use crate::update::{UpdateHandle, Updating};
use crate::wire::Data;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<T, E, H> Start<T, E, H>
where
    H: From<Handle<T, E>>,
{
    /// Brings a signal along: `.with_signal(|cart| cart.add(&tea))`. A run that is open already
    /// gets the signal, unless [`conflict`](Start::conflict) says otherwise.
    pub fn with_signal(self, signal: impl FnOnce(&H) -> Sent) -> StartWithSignal<T, E, H> {
        let signal = signal(&self.nobody());
        StartWithSignal {
            start: self.or_existing(),
            signal,
        }
    }

    /// Brings an update along: `.with_update(|cart| cart.remove("tea"))`; awaiting gives the
    /// handle and the update's result. A run that is open already gets the update, unless
    /// [`conflict`](Start::conflict) says otherwise. An update that is turned away leaves the run
    /// that was started with it.
    pub fn with_update<O, F>(
        self,
        update: impl FnOnce(&H) -> Updating<O, F>,
    ) -> StartWithUpdate<T, E, H, O, F> {
        let update = update(&self.nobody());
        StartWithUpdate {
            start: self.or_existing(),
            update,
        }
    }

    /// A handle to describe a message with: it is never sent to.
    fn nobody(&self) -> H {
        let run = RunRef::newest(WorkflowId::new(""));
        let workflow_type = (&*self.draft.workflow_type).into();
        Handle::new(self.draft.app.clone(), workflow_type, run).into()
    }

    fn or_existing(mut self) -> Self {
        self.draft
            .conflict
            .get_or_insert(ConflictPolicy::UseExisting);
        self
    }
}

/// A start with a signal: `.await` gives the handle.
#[must_use = "nothing is started until it is awaited"]
pub struct StartWithSignal<T, E, H> {
    start: Start<T, E, H>,
    signal: Sent,
}

impl<T, E, H> IntoFuture for StartWithSignal<T, E, H>
where
    T: Data,
    E: IntoFailure,
    H: From<Handle<T, E>> + 'static,
{
    type Output = Result<H, CallError>;
    type IntoFuture = BoxFuture<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let signal = self.signal.request()?;
            let (app, request) = self.start.draft.request()?;
            let started = Starting::new(app, &request);
            let port = started.app.port();
            let reply = port.signal_with_start(request, signal).await?;
            Ok(started.handle(reply).into())
        })
    }
}

impl<T, E, H> fmt::Debug for StartWithSignal<T, E, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartWithSignal")
            .field("start", &self.start)
            .field("signal", &self.signal)
            .finish()
    }
}

/// A start with an update: `.await` gives the handle and the update's result.
#[must_use = "nothing is started until it is awaited"]
pub struct StartWithUpdate<T, E, H, O, F = Error> {
    start: Start<T, E, H>,
    update: Updating<O, F>,
}

impl<T, E, H, O, F> StartWithUpdate<T, E, H, O, F>
where
    T: Data,
    E: IntoFailure,
    H: From<Handle<T, E>>,
    O: Data,
    F: IntoFailure,
{
    /// Waits only until the update has passed its validator, durably.
    ///
    /// # Errors
    /// [`CallError::Rejected`] when it did not; the run is started all the same.
    pub async fn accepted(self) -> Result<(H, UpdateHandle<O, F>), CallError<F::Seen>> {
        self.until(UpdateStage::Accepted).await
    }

    async fn until(
        self,
        stage: UpdateStage,
    ) -> Result<(H, UpdateHandle<O, F>), CallError<F::Seen>> {
        let (update, asked) = self.update.request()?;
        let (app, request) = self.start.draft.request()?;
        let started = Starting::new(app, &request);
        let sent = started.app.port().update_with_start(request, asked, stage);
        let (reply, told) = sent.await?;
        let handle: Handle<T, E> = started.handle(reply);
        let update = update.to(handle.run_ref().clone()).told(told)?;
        Ok((handle.into(), update))
    }
}

impl<T, E, H, O, F> IntoFuture for StartWithUpdate<T, E, H, O, F>
where
    T: Data,
    E: IntoFailure,
    H: From<Handle<T, E>> + Send + 'static,
    O: Data,
    F: IntoFailure,
{
    type Output = Result<(H, O), CallError<F::Seen>>;
    type IntoFuture = BoxFuture<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (handle, update) = self.until(UpdateStage::Completed).await?;
            Ok((handle, update.result().await?))
        })
    }
}

impl<T, E, H, O, F> fmt::Debug for StartWithUpdate<T, E, H, O, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartWithUpdate")
            .field("start", &self.start)
            .field("update", &self.update)
            .finish()
    }
}
