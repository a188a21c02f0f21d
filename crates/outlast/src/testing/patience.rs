//! How long a replay in a test waits for code that does not come to rest. There is no watchdog
//! beside it, and a test should say the same every time: polls are counted, not seconds. One poll
//! that does not end is beyond it.

use std::cell::Cell;
use std::ops::ControlFlow;

use outlast_model::event::Site;
use outlast_runtime::SliceWatch;

/// Polls of one recorded task: more than code that came to rest within the limits ever had.
const POLLS: u32 = 1_000_000;

/// Counts the polls of one recorded task.
#[derive(Debug, Default)]
pub(super) struct Patience(Cell<u32>);

impl SliceWatch for Patience {
    fn before_poll(&self, _: &str, _: Option<&Site>) -> ControlFlow<()> {
        let polls = self.0.replace(self.0.get().saturating_add(1));
        if polls < POLLS {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }

    fn part_done(&self) {
        self.0.set(0);
    }
}
