//! The task of an update: judged, accepted, run, answered.
//!
//! ```text
//!   created --first poll--> judged --no--> RejectUpdate
//!                             |
//!                            yes or replay: AcceptUpdate --> code runs --> CompleteUpdate
//! ```
//!
//! The judgement comes at the first poll and not when the job is applied: handlers of one
//! activation run in order, and a validator must see what those before it have done. Both
//! answers take their place among the commands, so that a replay finds them there.

use std::rc::Rc;

use outlast_model::event::{UpdateOutcome, UpdateRequest};
use outlast_model::failure::type_name;
use outlast_model::job::UpdateJob;
use outlast_model::{Command, Failure, UpdateName};

use crate::context::Context;
use crate::guard::Reader;
use crate::program::{HandlerFuture, UpdateHandler, UpdateValidator};
use crate::shared::Shared;

/// The whole life of an update, as the code of a handler's task.
pub(crate) fn run(shared: Rc<Shared>, job: UpdateJob, handler: UpdateHandler) -> HandlerFuture {
    Box::pin(async move {
        let UpdateHandler {
            validator, code, ..
        } = handler;
        let request = job.request;
        let id = request.id.clone();
        if let Some(validator) = validator.filter(|_| job.run_validator)
            && let Err(failure) = judge(&shared, &validator, &request)
        {
            shared.answer(Command::RejectUpdate { id, failure });
            return Ok(());
        }
        shared.answer(Command::AcceptUpdate { id: id.clone() });
        let outcome = match code(Context::at(shared.address), request).await {
            Ok(result) => UpdateOutcome::Completed(result),
            Err(failure) => UpdateOutcome::Failed(failure),
        };
        shared.answer(Command::CompleteUpdate { id, outcome });
        Ok(())
    })
}

fn judge(
    shared: &Rc<Shared>,
    validator: &UpdateValidator,
    request: &UpdateRequest,
) -> Result<(), Failure> {
    let ctx = Context::at(shared.address);
    shared.read_only(Reader::Validator, || validator(ctx, request))?
}

/// Nobody handles an update of this name.
pub(crate) fn unknown<'a>(
    name: &UpdateName,
    known: impl Iterator<Item = &'a UpdateName>,
) -> Failure {
    unknown_handler("update", name.as_str(), known.map(UpdateName::as_str))
}

/// There is no handler of this name, but there are these.
pub(crate) fn unknown_handler<'a>(
    kind: &str,
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> Failure {
    let known: Vec<String> = known.map(|name| format!("`{name}`")).collect();
    let known = if known.is_empty() {
        "none".into()
    } else {
        known.join(", ")
    };
    let text = format!("this workflow has no {kind} `{name}`; it has: {known}");
    Failure::application(type_name::UNKNOWN_HANDLER, text)
}
