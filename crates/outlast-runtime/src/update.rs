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
use outlast_model::job::UpdateJob;
use outlast_model::{Command, Failure};

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
        if job.run_validator
            && let Err(failure) = judge(&shared, validator.as_ref(), &request)
        {
            shared.answer(Command::RejectUpdate { id, failure });
            return Ok(());
        }
        shared.answer(Command::AcceptUpdate { id: id.clone() });
        let ctx = Context::at(shared.address);
        let result = match shared.interceptors() {
            None => code(ctx, request).await,
            Some(all) => all.update(ctx, request, code).await,
        };
        // The failure of a branch it spawned counts as its own.
        let failure = shared.scope.borrow().take_failure();
        let outcome = match failure.map_or(result, Err) {
            Ok(result) => UpdateOutcome::Completed(result),
            Err(failure) => UpdateOutcome::Failed(failure),
        };
        shared.answer(Command::CompleteUpdate { id, outcome });
        Ok(())
    })
}

fn judge(
    shared: &Rc<Shared>,
    validator: Option<&UpdateValidator>,
    request: &UpdateRequest,
) -> Result<(), Failure> {
    let ctx = Context::at(shared.address);
    let read = |judge: &dyn Fn() -> Result<(), Failure>| shared.read_only(Reader::Validator, judge);
    match (shared.interceptors(), validator) {
        (None, None) => Ok(()),
        (None, Some(validator)) => read(&|| validator(ctx, request))?,
        (Some(all), validator) => read(&|| all.validate(ctx, request.clone(), validator))?,
    }
}
