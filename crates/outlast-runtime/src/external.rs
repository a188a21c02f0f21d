//! What a run says to runs that are not its children: messages, and requests to stop.
//!
//! Both resolve when the other run has them, or cannot have them. Neither can be called back
//! once it is on its way: whoever cancels one stops waiting, no more.

use std::rc::Rc;

use outlast_model::command::{CancelExternal, SignalExternal};
use outlast_model::event::{CancelOf, DeliveryFailedCause, Site};
use outlast_model::failure::{RetryState, type_name};
use outlast_model::{Command, Failure, Payload, Resolution, Seq, limits};

use crate::cell::{Key, Kind, Subject};
use crate::failure::TaskFailure;
use crate::intercept::{Call, CancelCall, SignalCall};
use crate::operation::Operation;
use crate::shared::Shared;

impl Shared {
    pub(crate) fn signal_external(self: &Rc<Self>, mut call: SignalCall, site: Site) -> Operation {
        self.intercept(Call::Signal(&mut call));
        let SignalCall {
            target,
            name,
            input,
            headers,
        } = call;
        let subject = Subject::ExternalSignal {
            name: name.clone(),
            target: target.workflow_id.clone(),
        };
        self.schedule(Kind::ExternalSignal, subject, site, |seq, site| {
            let command = SignalExternal {
                seq,
                target,
                name,
                input,
                site,
                headers,
            };
            Some(Command::SignalExternal(Box::new(command)))
        })
    }

    pub(crate) fn cancel_external(self: &Rc<Self>, mut call: CancelCall, site: Site) -> Operation {
        self.intercept(Call::Cancel(&mut call));
        let CancelCall { target, reason } = call;
        // As it will be recorded: a replay compares.
        let reason = limits::reason(reason);
        let subject = Subject::ExternalCancel {
            target: target.workflow_id.clone(),
        };
        self.schedule(Kind::ExternalCancel, subject, site, |seq, site| {
            let command = CancelExternal {
                seq,
                target,
                reason,
                site,
            };
            Some(Command::CancelExternal(Box::new(command)))
        })
    }

    /// A job says what became of a message.
    pub(crate) fn signal_arrived(
        &self,
        seq: Seq,
        cause: Option<DeliveryFailedCause>,
    ) -> Result<(), TaskFailure> {
        let kind = Kind::ExternalSignal;
        self.resolve(Key { kind, seq }, delivered(cause))
    }

    /// A job says what became of a request to stop. A child that could not be told has ended or
    /// will end: its outcome says so.
    pub(crate) fn cancel_arrived(
        &self,
        of: CancelOf,
        cause: Option<DeliveryFailedCause>,
    ) -> Result<(), TaskFailure> {
        let kind = Kind::ExternalCancel;
        match (of, cause) {
            (CancelOf::External(seq), cause) => self.resolve(Key { kind, seq }, delivered(cause)),
            (CancelOf::Child(seq), None) => self.child_told_to_stop(seq),
            (CancelOf::Child(_), Some(_)) => Ok(()),
        }
    }
}

fn delivered(cause: Option<DeliveryFailedCause>) -> Resolution {
    let failure = match cause {
        None => return Resolution::Completed(Payload::null()),
        Some(DeliveryFailedCause::NotFound) => {
            Failure::application(type_name::NOT_FOUND, "there is no such open run")
        }
        Some(DeliveryFailedCause::HistoryFull) => {
            Failure::application(type_name::HISTORY_FULL, "the history of that run is full")
        }
    };
    Resolution::Failed(failure, RetryState::NonRetryableFailure)
}
