//! A child of a run, seen from its parent.
//!
//! ```text
//!  (asked) --Initiated--> Initiated --Started--> Started --outcome--> (gone)
//!                             |                     |
//!                             +----StartFailed------+--- outcome arrived while code ran: Ended
//! ```
//!
//! What parent and child say to each other travels as posts: written with the event that causes
//! it, taken with the event that it causes. A cancel of a child that has not started needs no
//! rule of its own: posts to one run arrive in order, so it comes after the start.

use alloc::boxed::Box;

use minicbor::{Decode, Encode};
use outlast_model::event::{ChildEvent, ChildInitiated, StartFailedCause};
use outlast_model::id::Seq;
use outlast_model::options::ParentClose;
use outlast_model::post::{ChildRequest, PostBody};
use outlast_model::view::{RunOutcome, RunRef};

use crate::run::Run;

/// Where a child stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum State {
    /// Asked for; nobody knows yet whether it runs.
    #[n(0)]
    Initiated,
    /// It runs.
    #[n(1)]
    Started,
    /// It has ended, or never started; workflow code runs and will be told after.
    #[n(2)]
    Ended,
}

/// What happens to a child.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// It runs, or could not be started.
    Started(Option<StartFailedCause>),
    /// It ended.
    Ended(RunOutcome),
    /// The parent ends.
    ParentCloses,
}

/// What follows.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Record this.
    Record(ChildEvent),
    /// Say this to the child.
    Say(PostBody),
    /// Nothing: it is known already, or the child may go on.
    Ignore,
}

/// A child of a run.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Child {
    /// As it was asked for.
    #[n(0)]
    pub initiated: Box<ChildInitiated>,
    /// Where it stands.
    #[n(1)]
    pub state: State,
    /// Whether workflow code asked it to stop.
    #[n(2)]
    pub is_cancel_requested: bool,
}

impl Child {
    /// One that was just asked for.
    pub fn new(initiated: Box<ChildInitiated>) -> Self {
        Self {
            initiated,
            state: State::Initiated,
            is_cancel_requested: false,
        }
    }

    /// Its chain of runs.
    pub fn target(&self) -> RunRef {
        RunRef {
            workflow_id: self.initiated.workflow_id.clone(),
            run_id: Some(self.initiated.run_id),
        }
    }

    /// Decides one input. Pure: same arguments, same answer.
    pub fn decide(&self, input: Input) -> Verdict {
        let seq = self.initiated.seq;
        match (self.state, input) {
            (State::Initiated, Input::Started(None)) => Verdict::Record(ChildEvent::Started {
                seq,
                run_id: self.initiated.run_id,
            }),
            (State::Initiated, Input::Started(Some(cause))) => {
                Verdict::Record(ChildEvent::StartFailed { seq, cause })
            }
            (State::Started, Input::Ended(outcome)) => ended(seq, outcome),
            (State::Initiated | State::Started, Input::ParentCloses) => self.parent_closes(),
            (State::Initiated, Input::Ended(_))
            | (State::Started, Input::Started(_))
            | (State::Ended, Input::Started(_) | Input::Ended(_) | Input::ParentCloses) => {
                Verdict::Ignore
            }
        }
    }

    fn parent_closes(&self) -> Verdict {
        let reason = || "its parent has ended".into();
        match self.initiated.options.parent_close {
            ParentClose::Terminate => Verdict::Say(PostBody::Terminate { reason: reason() }),
            ParentClose::RequestCancel => Verdict::Say(PostBody::Cancel {
                of: None,
                reason: reason(),
            }),
            ParentClose::Abandon => Verdict::Ignore,
        }
    }
}

fn ended(seq: Seq, outcome: RunOutcome) -> Verdict {
    Verdict::Record(match outcome {
        RunOutcome::Completed(result) => ChildEvent::Completed { seq, result },
        RunOutcome::Failed(failure) => ChildEvent::Failed { seq, failure },
        RunOutcome::Canceled => ChildEvent::Canceled { seq },
        RunOutcome::Terminated { .. } => ChildEvent::Terminated { seq },
        RunOutcome::TimedOut => ChildEvent::TimedOut { seq },
        // The chain goes on: its last run tells.
        RunOutcome::ContinuedAsNew(_) => return Verdict::Ignore,
    })
}

/// What a parent says so that its child begins to exist, right before the event that says so.
pub fn request(run: &Run, initiated: &ChildInitiated) -> PostBody {
    let started = run.started();
    PostBody::StartChild(Box::new(ChildRequest {
        workflow_id: initiated.workflow_id.clone(),
        run_id: initiated.run_id,
        workflow_type: initiated.workflow_type.clone(),
        queue: initiated.queue.clone(),
        input: initiated.input.clone(),
        run_timeout: initiated.options.run_timeout,
        reuse: initiated.options.reuse,
        parent: outlast_model::event::Parent {
            workflow_id: started.workflow_id.clone(),
            run_id: started.run_id,
            seq: initiated.seq,
            initiated: run.next_event(),
            priority: initiated.options.priority,
        },
        headers: initiated.headers.clone(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_model::event::Site;
    use outlast_model::{ChildOptions, Headers, Payload, RunId};
    use std::fmt::Write;
    use std::string::String;

    /// Every state against every input: a reviewer reads this table, not the match.
    #[test]
    fn transition_table() {
        let inputs = [
            Input::Started(None),
            Input::Started(Some(StartFailedCause::AlreadyExists)),
            Input::Ended(RunOutcome::Completed(Payload::null())),
            Input::Ended(RunOutcome::TimedOut),
            Input::Ended(RunOutcome::ContinuedAsNew(RunId(3))),
            Input::ParentCloses,
        ];
        let policies = [
            ParentClose::Terminate,
            ParentClose::RequestCancel,
            ParentClose::Abandon,
        ];
        let mut table = String::new();
        for state in [State::Initiated, State::Started, State::Ended] {
            for policy in policies {
                let mut child = Child::new(Box::new(ChildInitiated {
                    seq: Seq(1),
                    workflow_id: "c".into(),
                    run_id: RunId(2),
                    workflow_type: "t".into(),
                    queue: "default".into(),
                    input: Payload::null(),
                    options: ChildOptions {
                        parent_close: policy,
                        ..ChildOptions::default()
                    },
                    site: Site::default(),
                    headers: Headers::new(),
                }));
                child.state = state;
                for input in &inputs {
                    let verdict = child.decide(input.clone());
                    writeln!(table, "{state:?} {policy:?} | {input:?} => {verdict:?}")
                        .expect("writes to a string");
                }
            }
        }
        insta::assert_snapshot!(table);
    }
}
