//! What an open run needs that this application does not have: its workflow, an activity it waits
//! for, or anybody who serves its task queue. Nothing of it is stored: the next build may have it.

use outlast_engine::{Run, activity};
use outlast_model::event::{ActivityScheduled, TaskFailedCause};
use outlast_model::failure::type_name;
use outlast_model::id::DEFAULT_QUEUE;
use outlast_model::task::AttemptKind;
use outlast_model::view::Trouble;
use outlast_model::{ActivityType, Failure, QueueName, Seq, Shared, Timestamp, WorkflowType, near};

use super::Shard;
use crate::outlet::Lack;

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

    fn trouble(
        &self,
        queue: &QueueName,
        kind: &'static str,
        name: &str,
        since: Timestamp,
    ) -> Trouble {
        let text = self.not_registered(queue, kind, name);
        Trouble {
            cause: TaskFailedCause::WorkerUnhandledFailure,
            since,
            attempts: 0,
            failure: Failure::application(type_name::NOT_REGISTERED, text),
            next_try: None,
        }
    }

    /// Whether an attempt may be handed out here at all; if not, somebody should know. `runnable` is
    /// one that may: those of a decision are mostly alike.
    pub(super) fn can_run(
        &self,
        run: &Run,
        (kind, seq): (AttemptKind, Seq),
        runnable: &mut Option<Shared<ActivityScheduled>>,
    ) -> bool {
        let scheduled = match (kind, run.activity(seq)) {
            (AttemptKind::Step, _) => return true,
            (AttemptKind::Activity, None) => return false,
            (AttemptKind::Activity, Some(activity)) => &activity.scheduled,
        };
        let (queue, name) = (&scheduled.queue, &scheduled.activity_type);
        let is_like =
            |one: &Shared<ActivityScheduled>| one.queue == *queue && one.activity_type == *name;
        if runnable.as_ref().is_some_and(is_like) {
            return true;
        }
        let has = self.parts.capabilities.has_activity(queue, name);
        if has {
            *runnable = Some(scheduled.clone());
        } else {
            self.tell_lack(queue, "activity", name.as_str());
        }
        has
    }

    /// Whether the code of a run that is due is here; if not, somebody should know.
    pub(super) fn has_code(&self, run: &Run) -> bool {
        let has = self.has_type(run);
        if !has {
            let started = run.started();
            self.tell_lack(&started.queue, "workflow", started.workflow_type.as_str());
        }
        has
    }

    fn tell_lack(&self, queue: &QueueName, kind: &'static str, name: &str) {
        let text = self.not_registered(queue, kind, name);
        let queue = queue.clone();
        self.parts.outlet.lacks(&Lack { queue, text });
    }

    /// What is not there, the line to paste, and what may have been meant.
    fn not_registered(&self, queue: &QueueName, kind: &'static str, name: &str) -> String {
        let Some(served) = self.parts.capabilities.queues.get(queue) else {
            return format!(
                "no worker here serves task queue {queue}, where {kind} {name} waits; add \
                 .queue({queue:?}, |q| q.{kind}({name})) to the builder"
            );
        };
        let hint = if kind == "activity" {
            near::hint(name, served.activities.iter().map(ActivityType::as_str))
        } else {
            near::hint(name, served.workflows.iter().map(WorkflowType::as_str))
        };
        if queue.as_str() == DEFAULT_QUEUE {
            return format!(
                "no worker has {kind} {name}; add .{kind}({name}) to the builder{hint}"
            );
        }
        format!(
            "no worker of task queue {queue} has {kind} {name}; add .{kind}({name}) to its \
             .queue({queue:?}, ..){hint}"
        )
    }
}
