//! Interceptors and headers, from the client to the store and back, in virtual time.

mod diary;
mod follow;
mod own_calls;
mod stages;
#[path = "../support/mod.rs"]
mod support;
mod trouble;
