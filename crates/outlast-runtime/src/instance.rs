//! The live futures of a run.

use std::marker::PhantomData;

use outlast_model::event::{Site, TaskFailedCause};
use outlast_model::{Activation, Command, Failure, Job, Seq};

use crate::program::{ForeignWake, Program, SliceWatch, StepCode};

/// Why a workflow task could not complete.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskFailure {
    /// For a program.
    pub cause: TaskFailedCause,
    /// For a person.
    pub failure: Failure,
}

/// A branch that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingBranch {
    /// Its name.
    pub name: String,
    /// Its last durable call.
    pub site: Option<Site>,
}

/// The live futures of a run.
#[derive(Debug)]
pub struct Instance {
    _not_send: PhantomData<*const ()>,
}

impl Instance {
    /// Creates an instance from the activation that begins with `Initialize`, and runs it.
    ///
    /// # Errors
    /// The task failed.
    pub fn start(
        _program: &dyn Program,
        _activation: &Activation,
        _foreign: &ForeignWake,
        _watch: &dyn SliceWatch,
    ) -> Result<(Self, Vec<Command>), TaskFailure> {
        todo!()
    }
    /// Runs one slice.
    ///
    /// # Errors
    /// The task failed: drop the instance.
    pub fn activate(
        &mut self,
        _: &Activation,
        _: &dyn SliceWatch,
    ) -> Result<Vec<Command>, TaskFailure> {
        todo!()
    }
    /// Jobs that the last activation's commands call for, in the same task.
    pub fn followups(&mut self) -> Vec<Job> {
        todo!()
    }
    /// The code of a step that is not resolved.
    pub fn step_code(&self, _: Seq) -> Option<StepCode> {
        todo!()
    }
    /// Branches that wait.
    pub fn waiting(&self) -> Vec<WaitingBranch> {
        todo!()
    }
    /// Drains what should be told.
    pub fn warnings(&mut self) -> Vec<String> {
        todo!()
    }
    /// Drops it silently.
    pub fn evict(self) {
        todo!()
    }
}
