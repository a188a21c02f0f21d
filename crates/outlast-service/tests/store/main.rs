//! The stores, held to the port's promises, to each other, and to what files can do.

mod attempts;
mod broken;
mod conformance;
mod cost;
mod denied;
mod differential;
mod faulty;
mod file;
mod format;
mod index;
mod long_log;
mod open;
mod replaced;
mod restored;
#[cfg(unix)]
mod taken;
#[cfg(feature = "planted")]
mod trusted;
