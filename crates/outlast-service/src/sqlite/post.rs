//! What runs say to each other, kept until a commit takes it.
//!
//! A number is given once: whoever still knows a post by its number must never meet another one
//! under it. Posts are deleted, so the table does not tell which numbers were given; a mark in
//! `meta` does. Every number ever written is at most the mark: the transaction that writes the
//! first post past it raises it, by so much that nearly all others find it high enough and leave
//! its page alone. The next owner counts from the mark on, so a reopening skips numbers.

use outlast_model::post::PostNo;
use rusqlite::Connection;

use super::commit::{is_constraint, lost};
use super::row::{count, int};
use crate::store::{Commit, CommitError};

/// The mark is a multiple of this.
const STRIDE: u64 = 1024;

const INSERT: &str = "INSERT INTO post(id, data) VALUES (?1, ?2)";
const DELETE: &str = "DELETE FROM post WHERE id = ?1";
const RAISE_MARK: &str = "UPDATE meta SET value = ?1 WHERE key = 'posts' AND value < ?2";

/// Writes and removes the posts of a group, commit by commit. Without any it does nothing.
pub(super) fn write(conn: &Connection, group: &[Commit]) -> Result<(), CommitError> {
    for commit in group {
        insert(conn, &commit.posts)?;
        remove(conn, &commit.taken).map_err(|e| lost(&e))?;
    }
    let numbers = group.iter().flat_map(|commit| &commit.posts);
    match numbers.map(|(no, _)| *no).max() {
        Some(newest) => raise_mark(conn, newest).map_err(|e| lost(&e)),
        None => Ok(()),
    }
}

/// Removes posts; those that are not there are gone already.
pub(super) fn remove(conn: &Connection, posts: &[PostNo]) -> rusqlite::Result<()> {
    if posts.is_empty() {
        return Ok(());
    }
    let mut statement = conn.prepare_cached(DELETE)?;
    for no in posts {
        statement.execute([int(no.0)])?;
    }
    Ok(())
}

/// All that nobody took, oldest first.
pub(super) fn all(conn: &Connection) -> rusqlite::Result<Vec<(PostNo, Vec<u8>)>> {
    conn.prepare("SELECT id, data FROM post ORDER BY id")?
        .query_map((), |row| Ok((PostNo(count(row, 0)?), row.get(1)?)))?
        .collect()
}

/// No post was ever written with a higher number.
pub(super) fn mark(conn: &Connection) -> rusqlite::Result<PostNo> {
    let sql = "SELECT value FROM meta WHERE key = 'posts'";
    conn.query_row(sql, (), |row| count(row, 0)).map(PostNo)
}

fn insert(conn: &Connection, posts: &[(PostNo, Vec<u8>)]) -> Result<(), CommitError> {
    if posts.is_empty() {
        return Ok(());
    }
    let mut statement = conn.prepare_cached(INSERT).map_err(|e| lost(&e))?;
    for (no, data) in posts {
        statement
            .execute((int(no.0), data))
            .map_err(|e| number_in_use(*no, &e))?;
    }
    Ok(())
}

fn raise_mark(conn: &Connection, newest: PostNo) -> rusqlite::Result<()> {
    let mark = newest.0.next_multiple_of(STRIDE);
    conn.prepare_cached(RAISE_MARK)?
        .execute((int(mark), int(newest.0)))?;
    Ok(())
}

fn number_in_use(no: PostNo, error: &rusqlite::Error) -> CommitError {
    if is_constraint(error) {
        return CommitError::Failed {
            reason: format!("post number {} is in use", no.0),
        };
    }
    lost(error)
}
