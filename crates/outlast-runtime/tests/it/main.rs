//! The law of the runtime, each sentence with a test that can fail.
//!
//! A scripted backend writes histories as the engine would; programs are plain async closures.

mod backend;
mod cancel;
mod equality;
mod flow;
mod mismatch;
mod nets;
mod random_programs;
mod scheduling;
mod signals;
mod undo;
