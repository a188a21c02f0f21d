//! What an open run needs that this application does not have: its workflow, an activity it waits
//! for, or anybody who serves its task queue. Nothing of it is stored: the next build may have it.

use outlast_engine::{Run, activity};
use outlast_model::event::TaskFailedCause;
use outlast_model::failure::type_name;
use outlast_model::id::DEFAULT_QUEUE;
use outlast_model::view::Trouble;
use outlast_model::{Failure, QueueName, Timestamp};

use super::Shard;

impl Shard {
    /// Why the run waits for a build that has more, if it does.
    pub(super) fn missing(&self, run: &Run) -> Option<Trouble> {
        if !run.status().is_open() {
            return None;
        }
        self.missing_workflow(run)
            .or_else(|| self.missing_activity(run))
    }

    fn missing_workflow(&self, run: &Run) -> Option<Trouble> {
        let started = run.started();
        let (queue, name) = (&started.queue, &started.workflow_type);
        let has = self.parts.capabilities.has_workflow(queue, name);
        let is_missing = run.task().is_pending() && !has;
        is_missing.then(|| self.trouble(queue, "workflow", name.as_str(), run.last_event_time()))
    }

    fn missing_activity(&self, run: &Run) -> Option<Trouble> {
        let capabilities = &self.parts.capabilities;
        let is_missing = |activity: &activity::Activity| {
            let scheduled = &activity.scheduled;
            matches!(activity.state, activity::State::Waiting { .. })
                && !capabilities.has_activity(&scheduled.queue, &scheduled.activity_type)
        };
        let (_, activity) = run
            .activities()
            .find(|(_, activity)| is_missing(activity))?;
        let scheduled = &activity.scheduled;
        let (queue, name) = (&scheduled.queue, scheduled.activity_type.as_str());
        Some(self.trouble(queue, "activity", name, activity.waiting_since))
    }

    fn trouble(&self, queue: &QueueName, kind: &str, name: &str, since: Timestamp) -> Trouble {
        let is_served = self.parts.capabilities.serves(queue);
        Trouble {
            cause: TaskFailedCause::WorkerUnhandledFailure,
            since,
            attempts: 0,
            failure: not_registered(queue, is_served, kind, name),
            next_try: None,
        }
    }
}

/// What is not there, and the line to paste.
fn not_registered(queue: &QueueName, is_served: bool, kind: &str, name: &str) -> Failure {
    let text = if queue.as_str() == DEFAULT_QUEUE {
        format!("no worker has {kind} {name}; add .{kind}({name}) to the builder")
    } else if is_served {
        format!(
            "no worker of task queue {queue} has {kind} {name}; add .{kind}({name}) to its \
             .queue({queue:?}, ..)"
        )
    } else {
        format!(
            "no worker here serves task queue {queue}, where {kind} {name} waits; add \
             .queue({queue:?}, |q| q.{kind}({name})) to the builder"
        )
    };
    Failure::application(type_name::NOT_REGISTERED, text)
}
