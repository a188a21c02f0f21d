//! An update: a message that is answered.
//!
//! ```text
//!              +--> (waits, unwritten) --AcceptUpdate--> Accepted --CompleteUpdate--> Completed
//!  request ----|            | code does not run at once     ^   \--- run ends --> "run finished"
//!              |            v                               |
//!              +--------> Admitted -------AcceptUpdate------+
//!                           \----------RejectUpdate------> Rejected
//! ```
//!
//! An update that workflow code sees at once is not written before the code has judged it: one
//! that is turned away leaves no trace, not even the task that judged it. If the code cannot run
//! at once, the request is written (`Admitted`), and so is the rejection.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use minicbor::{Decode, Encode};
use outlast_model::event::{UpdateAccepted, UpdateEvent, UpdateOutcome, UpdateRequest};
use outlast_model::failure::type_name;
use outlast_model::id::{EventId, UpdateId, UpdateName};
use outlast_model::job::{Job, UpdateJob};
use outlast_model::planted::{Bug, is_planted};
use outlast_model::start::UpdateReply;
use outlast_model::{Command, EventKind, Fact, Failure, Refusal, Timestamp, limits};

use crate::apply::{Error, news};
use crate::decision::{Decision, Effect};
use crate::run::Run;

/// Where an update that history knows stands.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub enum State {
    /// Written; workflow code has not judged it.
    #[n(0)]
    Admitted {
        /// The last event before it.
        #[n(0)]
        behind: EventId,
    },
    /// It runs.
    #[n(1)]
    Accepted,
    /// It has its outcome.
    #[n(2)]
    Completed(#[n(0)] UpdateOutcome),
    /// It was turned away.
    #[n(3)]
    Rejected(#[n(0)] Failure),
}

/// An update that history knows.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Update {
    /// Its handler.
    #[n(0)]
    pub name: UpdateName,
    /// Where it stands.
    #[n(1)]
    pub state: State,
}

/// An update that workflow code sees before history does.
#[derive(Clone, Debug, PartialEq)]
pub struct Unwritten {
    /// What is asked.
    pub request: UpdateRequest,
    /// The last event before it.
    pub behind: EventId,
}

impl Update {
    /// What its caller can be told now.
    pub fn reply(&self) -> Option<UpdateReply> {
        match &self.state {
            State::Admitted { .. } => None,
            State::Accepted => Some(UpdateReply::Accepted),
            State::Completed(outcome) => Some(UpdateReply::Done(outcome.clone())),
            State::Rejected(failure) => Some(UpdateReply::Rejected(failure.clone())),
        }
    }

    /// Whether it passed its validator.
    pub fn is_accepted(&self) -> bool {
        match &self.state {
            State::Accepted | State::Completed(_) => true,
            State::Admitted { .. } | State::Rejected(_) => false,
        }
    }

    /// Whether it has not come to its end.
    pub fn is_open(&self) -> bool {
        match &self.state {
            State::Admitted { .. } | State::Accepted => true,
            State::Completed(_) | State::Rejected(_) => false,
        }
    }
}

/// What an accepted update hears when its run ends first.
pub fn run_finished() -> UpdateOutcome {
    UpdateOutcome::Failed(Failure::application(
        type_name::RUN_FINISHED,
        "the run ended before the update it had accepted: let its handler finish first, or ask \
         the run that came after",
    ))
}

/// An update arrives. The same id again is the same update.
pub(crate) fn arrive(
    run: &mut Run,
    request: UpdateRequest,
    is_fast: bool,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    let runs_again = |known: &&Update| {
        is_planted(Bug::UpdateRunsAgain) && matches!(known.state, State::Completed(_))
    };
    if let Some(known) = run.update(&request.id).filter(|known| !runs_again(known)) {
        if let Some(reply) = known.reply() {
            decision.effect(Effect::Update(request.id, reply));
        }
        return Ok(());
    }
    if run.is_unwritten(&request.id) {
        return Ok(());
    }
    crate::apply::refuse_if_full(run)?;
    if run.open_updates() >= limits::UPDATES_IN_FLIGHT {
        return Err(Error::Refused(Refusal::NotReady {
            workflow_id: run.started().workflow_id.clone(),
            run_id: run.started().run_id,
            why: format!("{} updates are in flight", limits::UPDATES_IN_FLIGHT),
        }));
    }
    if run.is_buffering() || !is_fast || !run.task().takes_updates_unwritten() {
        let kind = EventKind::Update(UpdateEvent::Admitted(Box::new(request)));
        run.is_speculative_no_more();
        decision.stimulus(run, kind, now)?;
        return news(run, decision, now);
    }
    if decision.records.is_empty() && run.unseen().is_empty() {
        run.speculate();
    }
    run.wait_unwritten(request);
    news(run, decision, now)
}

/// Workflow code does not answer at once: what it was given is written now.
pub(crate) fn admit_all(
    run: &mut Run,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    run.is_speculative_no_more();
    for request in run.unwritten_requests() {
        let kind = EventKind::Update(UpdateEvent::Admitted(Box::new(request)));
        decision.event(run, kind, now)?;
    }
    Ok(())
}

/// Whether the updates that workflow code was given are answered, each once, and no other.
pub(crate) fn check(run: &Run, commands: &[Command]) -> Result<(), String> {
    let mut given: alloc::collections::BTreeSet<&UpdateId> = run
        .unseen()
        .iter()
        .filter_map(|job| given_update(job))
        .map(|job| &job.request.id)
        .collect();
    let mut accepted: alloc::collections::BTreeSet<&UpdateId> = alloc::collections::BTreeSet::new();
    for command in commands {
        let is_fine = match command {
            Command::AcceptUpdate { id } => given.remove(id) && accepted.insert(id),
            Command::RejectUpdate { id, .. } => given.remove(id),
            Command::CompleteUpdate { id, .. } => {
                accepted.remove(id)
                    || run
                        .update(id)
                        .is_some_and(|update| update.state == State::Accepted)
            }
            Command::ScheduleActivity(_)
            | Command::RequestCancelActivity { .. }
            | Command::StartTimer { .. }
            | Command::CancelTimer { .. }
            | Command::ScheduleStep { .. }
            | Command::CancelStep { .. }
            | Command::StartChild(_)
            | Command::CancelChild { .. }
            | Command::SignalExternal(_)
            | Command::CancelExternal(_)
            | Command::SetPatch { .. }
            | Command::ContinueAsNew(_)
            | Command::CompleteWorkflow { .. }
            | Command::FailWorkflow { .. }
            | Command::CancelWorkflow => true,
        };
        if !is_fine {
            return Err(format!(
                "{} of an update that does not wait for it",
                command.name()
            ));
        }
    }
    match given.first() {
        Some(id) => Err(format!("update {id} was neither accepted nor rejected")),
        None => Ok(()),
    }
}

pub(crate) fn given_update(job: &Job) -> Option<&UpdateJob> {
    match job {
        Job::Update(update) => Some(update),
        Job::Initialize(_)
        | Job::Signal { .. }
        | Job::FireTimer { .. }
        | Job::ResolveActivity { .. }
        | Job::ResolveStep { .. }
        | Job::CancelWorkflow { .. }
        | Job::NotifyPatch { .. }
        | Job::UpdateRandomSeed { .. }
        | Job::ResolveChildStart { .. }
        | Job::ResolveChild { .. }
        | Job::ResolveSignalExternal { .. }
        | Job::ResolveCancelExternal { .. } => None,
    }
}

/// Workflow code accepts an update.
pub(crate) fn accept(
    run: &mut Run,
    id: UpdateId,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    let (request, behind) = match run.take_unwritten(&id) {
        Some(unwritten) => (Some(unwritten.request), unwritten.behind),
        None => match run.position_of(&id) {
            Some(behind) => (None, behind),
            None => {
                return Err(Error::Unexpected(
                    "an update accepted that nobody sent".into(),
                ));
            }
        },
    };
    let accepted = UpdateAccepted {
        id: id.clone(),
        request,
        behind,
    };
    let kind = EventKind::Update(UpdateEvent::Accepted(Box::new(accepted)));
    decision.event(run, kind, now)?;
    decision.effect(Effect::Update(id, UpdateReply::Accepted));
    Ok(())
}

/// Workflow code turns an update away. One that is not written leaves nothing.
pub(crate) fn reject(
    run: &mut Run,
    id: UpdateId,
    failure: Failure,
    decision: &mut Decision,
) -> Result<(), Error> {
    if run.take_unwritten(&id).is_none() {
        let (id, failure) = (id.clone(), failure.clone());
        decision.fact(run, Fact::UpdateRejected { id, failure })?;
    }
    decision.effect(Effect::Update(id, UpdateReply::Rejected(failure)));
    Ok(())
}

/// An accepted update has its outcome.
pub(crate) fn complete(
    run: &mut Run,
    id: UpdateId,
    outcome: UpdateOutcome,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<(), Error> {
    let kind = EventKind::Update(UpdateEvent::Completed {
        id: id.clone(),
        outcome: outcome.clone(),
    });
    decision.event(run, kind, now)?;
    decision.effect(Effect::Update(id, UpdateReply::Done(outcome)));
    Ok(())
}
