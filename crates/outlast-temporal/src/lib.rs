//! The backend over a Temporal cluster: the SDK core's worker behind the worker's handle, the
//! cluster's service behind the client port.
//!
//! The same workflow and activity code runs on it, by the same runtime and worker; only the URL
//! changes. Nothing here decides: the cluster has the rules of a run, the core matches commands
//! with its history, and this crate converts.
//!
//! Reading order: [`address`] (where a cluster is), [`connect`] (getting in), [`client`] (the
//! client port), [`queue`] (a queue's handle), [`replay`] (an exported history through the core),
//! `convert` (between their words and ours).
//!
//! Every future that leaves this crate is boxed: the code of one that does not is generated again in
//! each program that awaits it, with that of the core below it, half a minute each time.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the protocol's enums grow; what is not known is refused by name"
)]

pub mod address;
pub mod client;
pub mod connect;
mod convert;
mod proto;
pub mod queue;
mod refusal;
pub mod replay;

pub use address::Address;
pub use client::Client;
pub use connect::{Cluster, ConnectError, Patience};
pub use convert::Unsupported;
pub use convert::json::NotHistory;
pub use queue::Queues;
