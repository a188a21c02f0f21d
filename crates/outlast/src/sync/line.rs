//! Those who wait, first come first served.

use std::collections::VecDeque;

use outlast_runtime::{Releaser, Wait};

/// A line of waits, each with what it wants.
#[derive(Debug)]
pub(super) struct Line<W> {
    waiting: VecDeque<(W, Releaser)>,
    /// When so many stand in line, those who have left are taken out.
    sweep_at: usize,
}

impl<W> Default for Line<W> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            sweep_at: 8,
        }
    }
}

impl<W> Line<W> {
    pub(super) fn join(&mut self, want: W, wait: &Wait) {
        if self.waiting.len() >= self.sweep_at {
            self.waiting.retain(|(_, releaser)| releaser.is_waiting());
            self.sweep_at = (self.waiting.len() * 2).max(8);
        }
        self.waiting.push_back((want, wait.releaser()));
    }

    /// What the first in line wants.
    pub(super) fn first(&mut self) -> Option<&W> {
        while let Some((_, releaser)) = self.waiting.front()
            && !releaser.is_waiting()
        {
            self.waiting.pop_front();
        }
        self.waiting.front().map(|(want, _)| want)
    }

    /// Lets the first in line go.
    pub(super) fn release_first(&mut self) -> bool {
        let released = |(_, releaser): (W, Releaser)| releaser.release();
        self.first().is_some() && self.waiting.pop_front().is_some_and(released)
    }
}
