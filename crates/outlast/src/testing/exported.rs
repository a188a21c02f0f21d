//! A history that was exported as Temporal's JSON, replayed twice: by Outlast's own replayer, and
//! by the SDK core's, which drives Outlast's runtime as it drives every official SDK.

use std::sync::Arc;

use outlast_model::event::TaskFailedCause;
use outlast_model::failure::Failure;
use outlast_model::task::{Rounds, RunNo, TaskAnswer, TaskToken, WorkflowTask};
use outlast_model::{Activation, Epoch, QueueName, RunId, WorkflowId, WorkflowType};
use outlast_runtime::{ForeignWake, Instance, Program, ReplayChecks, run_task};
use outlast_temporal::replay::{self, Replay, ReplayError};
use outlast_worker::handle::{Completion, PolledActivation, PolledWork};

use super::patience::Patience;
use super::{outside_the_budget, replay_with};
use crate::erase::workflow_program;
use crate::error::{Error, Result};
use crate::workflow::WorkflowFn;

/// Replays a history that `outlast show RUN -o json`, a Temporal server or another tool has
/// written: once as [`replay_from_cluster`](super::replay_from_cluster), and once through the SDK
/// core's replay worker.
///
/// # Errors
/// The text is not a history, or the first difference between it and the code.
pub fn replay_json<W: WorkflowFn<K>, K>(_workflow: W, json: &str) -> Result<()> {
    let program = workflow_program::<W::Meta>();
    let events = replay::events(json).map_err(Error::msg)?;
    replay_with(&*program, &events, ReplayChecks { strict: false })?;
    // A thread of its own: the caller may stand in a runtime, where no other can be made.
    let replayed = std::thread::scope(|scope| {
        let thread = scope.spawn(|| super::block_on(through_core(&*program, json)));
        thread.join()
    });
    match replayed {
        Ok(replayed) => replayed.map_err(Error::msg),
        Err(_) => Err(Error::msg("the SDK core panicked")),
    }
}

async fn through_core(program: &dyn Program, json: &str) -> Result<(), ReplayError> {
    let replay = Replay::of(json).await?;
    let mut code = Code {
        program,
        nobody: Arc::new(|_| ()),
        instance: None,
    };
    while let Some(PolledActivation { run_id, work }) = replay.next().await? {
        let completion = code.answer(run_id, work);
        replay.answer(run_id, completion).await?;
    }
    replay.end().await;
    Ok(())
}

/// The language side: at most one instance.
struct Code<'a> {
    program: &'a dyn Program,
    nobody: ForeignWake,
    instance: Option<Instance>,
}

impl Code<'_> {
    fn answer(&mut self, run_id: RunId, work: PolledWork) -> Completion {
        match work {
            PolledWork::Activate(activation) => self.activate(run_id, activation),
            PolledWork::Ask(_) => Completion::Failed {
                cause: TaskFailedCause::WorkerUnhandledFailure,
                failure: Failure::application("outlast.Replay", "a replay asks nothing"),
            },
            PolledWork::Evict { .. } => {
                self.instance = None;
                Completion::Evicted
            }
        }
    }

    fn activate(&mut self, run_id: RunId, activation: Activation) -> Completion {
        let task = task(run_id, activation);
        let instance = self.instance.take();
        let checks = ReplayChecks::default();
        let (instance, answer) = outside_the_budget(|| {
            let (program, nobody) = (self.program, &self.nobody);
            let patience = Patience::default();
            run_task(instance, &task, program, nobody, &patience, checks)
        });
        self.instance = instance;
        match answer {
            TaskAnswer::Completed { commands, notes: _ } => Completion::Commands(commands),
            TaskAnswer::Queried(_) => Completion::Commands(Vec::new()),
            TaskAnswer::Failed { cause, failure } => Completion::Failed { cause, failure },
        }
    }
}

/// One round for the runtime; whose it is, only a worker asks.
fn task(run_id: RunId, activation: Activation) -> WorkflowTask {
    WorkflowTask {
        token: TaskToken {
            run: RunNo(0),
            epoch: Epoch(0),
            turn: 0,
        },
        run_id,
        workflow_id: WorkflowId::new(""),
        workflow_type: WorkflowType::new(""),
        queue: QueueName::new(""),
        activation,
        history: None,
        queries: Vec::new(),
        rounds: Rounds::Backend,
    }
}

#[cfg(test)]
mod tests;
