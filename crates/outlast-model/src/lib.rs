//! The nouns of Outlast: ids, payloads, events, commands, jobs, failures, retry policy, limits.
//!
//! Nothing in this crate decides anything. The engine writes these values, the runtime reads
//! them, the ports carry them, and the stores keep their bytes. A type earns its place here by
//! being passive and by being used on both sides of a wall.
//!
//! Reading order: [`id`], [`time`], [`payload`], [`headers`], [`failure`]; then what a run is made of:
//! [`event`], [`command`], [`job`]; then how it is kept: [`record`]; then what crosses the
//! ports: [`start`], [`task`], [`post`], [`refusal`].
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod bytes;
mod cbor;
pub mod command;
pub mod edition;
pub mod event;
pub mod failure;
pub mod grammar;
pub mod headers;
pub mod id;
pub mod job;
pub mod limits;
pub mod line;
pub mod meter;
pub mod near;
pub mod options;
pub mod payload;
pub mod planted;
pub mod post;
pub mod promise;
pub mod record;
pub mod refusal;
pub mod rest;
pub mod shared;
pub mod start;
pub mod status;
pub mod task;
pub mod temporal_json;
pub mod time;
pub mod view;

pub use bytes::Bytes;
pub use command::Command;
pub use edition::Edition;
pub use event::{Event, EventKind};
pub use failure::{Failure, FailureKind, TimeoutKind};
pub use headers::Headers;
pub use id::{
    ActivityType, AnswerToken, Attempt, Epoch, EventId, Incarnation, PatchId, PromiseId, QueryName,
    QueueName, RequestId, RunId, Seq, SignalName, StepName, UpdateId, UpdateName, Version,
    WorkflowId, WorkflowType,
};
pub use job::{Activation, Job, Resolution};
pub use line::Line;
pub use options::{
    ActivityOptions, CancelMode, ChildCancel, ChildOptions, ParentClose, Priority, RetryPolicy,
    StepOptions,
};
pub use payload::Payload;
pub use record::{Fact, Record};
pub use refusal::Refusal;
pub use shared::Shared;
pub use status::Status;
pub use time::Timestamp;
