//! What an owner whose file was taken away still holds, saved under another name.
//!
//! A file that was moved or removed lives on for those who have it open, and so does its log. The
//! copy is one file, whole and synced, beside the place of the old one; none is ever overwritten.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use rusqlite::Connection;

use super::lock::private;
use super::place::Place;
use super::touch;

/// More copies than anybody keeps.
const MOST: u32 = 1000;

/// Where everything is that this connection sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Saved {
    /// There.
    To(PathBuf),
    /// Not to be had, for this reason.
    No(String),
}

impl fmt::Display for Saved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::To(path) => write!(f, "everything acknowledged was saved to {}", path.display()),
            Self::No(reason) => write!(f, "what it held could not be saved ({reason})"),
        }
    }
}

/// Saves it.
pub(super) fn save(conn: &Connection, place: &Place) -> Saved {
    let path = match new_file(place) {
        Ok(path) => path,
        Err(e) => return Saved::No(e.to_string()),
    };
    // Not every name is text; SQLite takes the bytes as they are.
    let name = path.as_os_str().as_encoded_bytes();
    let copied = conn
        .execute("VACUUM INTO CAST(?1 AS TEXT)", [name])
        .map_err(|e| e.to_string())
        .and_then(|_| touch::sync(&path).map_err(|e| e.to_string()))
        .and_then(|()| touch::sync_directory_of(&path).map_err(|e| e.to_string()));
    match copied {
        Ok(()) => Saved::To(path),
        Err(reason) => {
            // Half a copy is worse than none.
            std::fs::remove_file(&path).ok();
            Saved::No(reason)
        }
    }
}

/// An empty file of a name that is free.
fn new_file(place: &Place) -> io::Result<PathBuf> {
    for number in 1..=MOST {
        let mut name = place.db.clone().into_os_string();
        name.push(format!(".rescued-{number}"));
        let path = PathBuf::from(name);
        match private(OpenOptions::new().write(true).create_new(true)).open(&path) {
            Ok(_) => return Ok(path),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    Err(io::Error::other("there are a thousand copies already"))
}
