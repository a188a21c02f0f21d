//! The edition of the rules a run began under, as a cluster keeps it.
//!
//! The SDK core has a place for that: flags of the language side. A worker reports those it uses
//! with the task that first uses them, they stand in the metadata of that task's completion, and
//! on replay every activation says which were used so far. An edition is the flag of its number,
//! used by the first task of a run. A run without one is of the first edition: it began before
//! there were others.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use outlast_model::{Edition, Job, RunId};
use outlast_worker::handle::{PolledActivation, PolledWork};

use crate::proto::core::workflow_completion::{
    WorkflowActivationCompletion, workflow_activation_completion::Status,
};

/// The rules of the run that this activation initialises.
pub(crate) fn of_activation(is_replaying: bool, used: &[u32]) -> Edition {
    if is_replaying {
        of_flags(used).unwrap_or(Edition::FIRST)
    } else {
        Edition::NEWEST
    }
}

/// The edition among the flags of a language side.
pub(crate) fn of_flags(used: &[u32]) -> Option<Edition> {
    let editions = used.iter().filter(|flag| **flag > Edition::FIRST.0);
    editions.max().map(|flag| Edition(*flag))
}

/// Runs whose first task is under way: its completion has to say the edition.
#[derive(Debug, Default)]
pub(crate) struct Beginnings(Mutex<BTreeSet<RunId>>);

impl Beginnings {
    /// An activation came.
    pub(crate) fn hear(&self, polled: &PolledActivation) {
        let PolledWork::Activate(activation) = &polled.work else {
            return;
        };
        let is_first = |job: &Job| matches!(job, Job::Initialize(_));
        if !activation.is_replaying && activation.jobs.iter().any(is_first) {
            self.runs().insert(polled.run_id);
        }
    }

    /// An answer leaves.
    pub(crate) fn tell(&self, run_id: RunId, answer: &mut WorkflowActivationCompletion) {
        let is_first = self.runs().remove(&run_id);
        if let Some(Status::Successful(success)) = &mut answer.status
            && is_first
        {
            success.used_internal_flags.push(Edition::NEWEST.0);
        }
    }

    fn runs(&self) -> MutexGuard<'_, BTreeSet<RunId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_model::event::Started;
    use outlast_model::{Activation, Headers, Payload, Seq, Shared, Timestamp};

    fn begins() -> Job {
        Job::Initialize(Shared::new(Started {
            workflow_id: "w".into(),
            run_id: RunId(7),
            workflow_type: "t".into(),
            queue: "q".into(),
            input: Payload::null(),
            request_id: None,
            run_timeout: None,
            parent: None,
            first_run_id: None,
            continued_from: None,
            headers: Headers::new(),
            priority: None,
            edition: None,
        }))
    }

    fn polled(is_replaying: bool, job: Job) -> PolledActivation {
        let activation = Activation {
            now: Timestamp(0),
            is_replaying,
            history_events: 3,
            suggest_continue_as_new: false,
            jobs: vec![job],
        };
        PolledActivation {
            run_id: RunId(7),
            work: PolledWork::Activate(activation),
        }
    }

    fn told(beginnings: &Beginnings) -> Vec<u32> {
        let mut answer = WorkflowActivationCompletion::from_cmds("run", Vec::new());
        beginnings.tell(RunId(7), &mut answer);
        match answer.status {
            Some(Status::Successful(success)) => success.used_internal_flags,
            Some(Status::Failed(_)) | None => panic!("it succeeded"),
        }
    }

    #[test]
    fn a_new_run_is_of_the_newest_edition_and_a_replayed_one_of_its_own() {
        assert_eq!(of_activation(false, &[]), Edition::NEWEST);
        assert_eq!(of_activation(true, &[]), Edition::FIRST);
        assert_eq!(of_activation(true, &[2]), Edition::SECOND);
        assert_eq!(
            of_activation(true, &[2, 9]),
            Edition(9),
            "of a later version"
        );
    }

    #[test]
    fn the_first_answer_of_a_new_run_says_its_edition_and_no_other_does() {
        let beginnings = Beginnings::default();
        beginnings.hear(&polled(true, begins()));
        assert!(told(&beginnings).is_empty(), "replayed");
        beginnings.hear(&polled(false, begins()));
        assert_eq!(told(&beginnings), [2]);
        assert!(told(&beginnings).is_empty(), "once");
        beginnings.hear(&polled(false, Job::FireTimer { seq: Seq(1) }));
        assert!(told(&beginnings).is_empty(), "not of its first task");
    }
}
