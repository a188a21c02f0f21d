//! The nouns, from outside: what is written can be read, what is exported is Temporal's, which
//! histories can exist, and which limits hold. One binary, so that it links once.

mod arbitrary;
mod golden;
mod grammar;
mod limits;
mod record_laws;
mod samples;
mod size;
mod temporal_json;
