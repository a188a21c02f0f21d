//! The law of the runtime, each sentence with a test that can fail.
//!
//! A scripted backend writes histories as the engine would; programs are plain async closures.
#![allow(
    clippy::result_large_err,
    reason = "failures are rare, and are moved on as they are"
)]

mod backend;
mod cancel;
mod children;
mod conditions;
mod continued;
mod equality;
mod external;
mod flow;
mod guard;
mod handler_end;
mod matrix;
mod mismatch;
mod mismatch_messages;
mod nets;
mod patches;
mod promises;
mod queries;
mod quiescence;
mod random_programs;
mod rounds;
mod scheduling;
mod signals;
mod structure;
mod undo;
mod updates;
