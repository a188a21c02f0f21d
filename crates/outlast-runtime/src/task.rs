//! One workflow task.

use outlast_model::Event;
use outlast_model::task::{TaskAnswer, WorkflowTask};

use crate::instance::{Instance, TaskFailure};
use crate::program::{ForeignWake, Program, SliceWatch};

/// How hard replay checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayChecks {
    /// Differences in options or input are errors.
    pub strict: bool,
}

/// Runs one workflow task.
pub fn run_task(
    _instance: Option<Instance>,
    _task: &WorkflowTask,
    _program: &dyn Program,
    _foreign: &ForeignWake,
    _watch: &dyn SliceWatch,
    _checks: ReplayChecks,
) -> (Option<Instance>, TaskAnswer) {
    todo!()
}

/// Replays a history.
///
/// # Errors
/// Code and history disagree, or the code failed.
pub fn replay(
    _history: &[Event],
    _program: &dyn Program,
    _foreign: &ForeignWake,
    _watch: &dyn SliceWatch,
    _checks: ReplayChecks,
) -> Result<Instance, TaskFailure> {
    todo!()
}
