//! What an open run needs that this application does not have: its workflow, or an activity it
//! waits for. Nothing of it is stored: the next build may have it.

use outlast_engine::{Run, activity};
use outlast_model::event::TaskFailedCause;
use outlast_model::failure::type_name;
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
        let name = &started.workflow_type;
        let has = self.parts.capabilities.workflows.contains(name);
        let is_missing = run.task().is_pending() && self.is_served(&started.queue) && !has;
        is_missing.then(|| trouble("workflow", name.as_str(), run.last_event_time()))
    }

    fn missing_activity(&self, run: &Run) -> Option<Trouble> {
        let known = &self.parts.capabilities.activities;
        let is_missing = |activity: &activity::Activity| {
            matches!(activity.state, activity::State::Waiting { .. })
                && self.is_served(&activity.scheduled.queue)
                && !known.contains(&activity.scheduled.activity_type)
        };
        let (_, activity) = run
            .activities()
            .find(|(_, activity)| is_missing(activity))?;
        let name = activity.scheduled.activity_type.as_str();
        Some(trouble("activity", name, activity.waiting_since))
    }

    /// A queue that is served elsewhere is no trouble of ours.
    fn is_served(&self, queue: &QueueName) -> bool {
        self.parts.capabilities.queues.contains(queue)
    }
}

fn trouble(kind: &str, name: &str, since: Timestamp) -> Trouble {
    let text = format!("no worker has {kind} {name}; add .{kind}({name}) to the builder");
    Trouble {
        cause: TaskFailedCause::WorkerUnhandledFailure,
        since,
        attempts: 0,
        failure: Failure::application(type_name::NOT_REGISTERED, text),
        next_try: None,
    }
}
