//! What a user of the library sees, each promise as a sentence: the whole of it, from the client
//! to the store and back, in virtual time.

mod answers;
mod attempts;
mod behind;
mod calls;
mod cancel;
mod chains;
mod changed;
mod children;
mod clock;
mod concurrency;
mod eviction;
mod ids;
mod lacking;
mod lifecycle;
mod messages;
mod promises;
mod queues;
mod race;
mod shards;
mod signals;
mod slots;
mod step;
#[path = "../support/mod.rs"]
mod support;
mod tree;
mod trouble;
mod view;
