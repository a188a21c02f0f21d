//! What people and pipes read. A reader who has gone away (`outlast ls | head`) is no error.

use std::io::{self, IsTerminal, Write};

/// One line, or several.
pub(crate) fn line(text: &str) {
    // Nobody is left to hear of a closed pipe.
    writeln!(io::stdout().lock(), "{text}").ok();
}

/// One line for whoever looks for trouble.
pub(crate) fn error(text: &str) {
    writeln!(io::stderr().lock(), "{text}").ok();
}

/// A line that replaces the one before it. On a terminal only.
pub(crate) fn redraw(text: &str) {
    let mut stdout = io::stdout().lock();
    write!(stdout, "\r{text}\x1b[K").ok();
    stdout.flush().ok();
}

/// Takes the redrawn line away.
pub(crate) fn clear() {
    let mut stdout = io::stdout().lock();
    write!(stdout, "\r\x1b[K").ok();
    stdout.flush().ok();
}

/// Whether somebody watches.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}
