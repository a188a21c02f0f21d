//! For tests: everything SQLite does to its files, on record, and the disks that a power cut could
//! leave behind.
//!
//! [`install`] puts a file system of ours between SQLite and the system's files, for the whole
//! process, as the default: a store that opens a path goes through it and does not know. Files in a
//! directory that a [`Lab`] watches are recorded, call by call, and calls can be made to fail
//! ([`Fault`]); all others pass untouched. From a [`Tape`] a [`Cutter`] builds [`Disk`]s.
//!
//! What does not pass SQLite is told by the program ([`beside`]), or seen where SQLite meets it: a
//! file that was made by other means counts as created, and not yet synced, when it is first opened.
//! The index of the log (`-shm`) and the lock file mean nothing after a power cut and are left out.
//!
//! Reading order: `record`, `inject`, `lab` (what is watched), `raw` (the calls of SQLite, the only
//! unsafe code of the project), `image`.

mod dice;
mod image;
mod inject;
mod lab;
mod raw;
mod record;

pub use dice::Dice;
pub use image::{Cutter, Disk, Image};
pub use inject::{Call, Fault, How, Lasting};
pub use lab::{Beside, Lab, beside};
pub use raw::{install, slept};
pub use record::{FileNo, Op, Tape};

#[cfg(test)]
mod tests;
