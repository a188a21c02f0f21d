//! Bad input: each is answered with a code, names the thing and the way out, writes nothing and
//! stops nobody else.

mod between;
mod damaged;
mod file;
mod host;
mod message;
mod request;
mod room;
#[path = "../support/mod.rs"]
mod support;
mod value;
