//! Everything that runs user code: slices of workflows, attempts of activities, steps; and the
//! backend port through which it hears what to run.
//!
//! Reading order: [`port`] (what a backend is), [`handle`] (one that is polled), [`registry`]
//! (what can be run), [`queue`] (a task queue: its code, settings and slots), [`worker`] (how it
//! starts and stops), [`engine`] (an engine thread), [`slices`] (one slice), [`watch`] (code that does not come back), [`dispatch`] and [`attempt`]
//! (activities and steps), [`event`] and [`bus`] (what somebody should know, and how they hear it).

pub mod attempt;
pub mod bus;
mod cache;
pub mod children;
mod chunk;
pub mod clock;
pub mod dispatch;
pub mod engine;
pub mod event;
pub mod handle;
mod heartbeat;
mod host;
mod life;
pub mod meter;
mod opener;
pub mod owner;
pub mod polled;
pub mod port;
pub mod queue;
pub mod registry;
mod roll;
mod running;
pub mod settings;
pub mod shutdown;
pub mod slices;
pub mod slots;
mod spares;
pub mod standing;
pub mod state;
mod steps;
mod stop;
mod stranded;
pub mod trace;
pub mod watch;
pub mod worker;
pub mod zombie;

pub use attempt::AttemptCtx;
pub use bus::{Bus, Events};
pub use children::Child;
pub use dispatch::Dispatch;
pub use event::{Severity, WorkerEvent};
pub use port::{ClientPort, Lane, Next, WorkerPort};
pub use queue::{Queue, QueueSpec, Queues};
pub use registry::{ActivityCode, Body, Registry};
pub use settings::Settings;
pub use shutdown::{Pace, Phase};
pub use slots::{Ask, SlotSupplier};
pub use worker::Worker;
