//! What takes back what a call did: `.undo(..)` by its result, `.undo_with(..)` by what is known before.

use outlast_model::{ActivityType, Payload};
use outlast_runtime::{Operation, UndoInput};

use crate::activity::Activity;
use crate::arg::Arg;
use crate::subject::Subject;
use crate::wire::{Data, store_or_panic};

/// The input of an undo: what the call gave, or an `Option` of it, which is `None` where it is not
/// known whether the call took effect.
#[diagnostic::on_unimplemented(
    message = "an undo takes what the call gives, a `{T}`, or an `Option` of it, but this one takes a `{Self}`",
    label = "this call gives a `{T}`",
    note = "`.undo_with(activity, input)` runs an activity with another input"
)]
pub trait Undoes<T>: Data {
    /// What it is given where there is no result.
    #[doc(hidden)]
    fn unknown() -> Option<Payload>;
}

/// Nothing, unless nothing is all that the call gives.
impl<T: Data> Undoes<T> for T {
    fn unknown() -> Option<Payload> {
        let nothing = Payload::null();
        nothing.decode::<T>().is_ok().then_some(nothing)
    }
}

impl<T: Data> Undoes<T> for Option<T> {
    fn unknown() -> Option<Payload> {
        Some(Payload::null())
    }
}

/// Undone by its result.
pub(crate) fn undone_by<T, A, K>(operation: Operation, undo: A) -> Operation
where
    A: Activity<K>,
    A::Input: Undoes<T>,
{
    let unknown = A::Input::unknown();
    planned(operation, undo, UndoInput::Result { unknown })
}

/// Undone by what is known before.
#[track_caller]
pub(crate) fn undone_with<A: Activity<K>, K>(
    operation: Operation,
    undo: A,
    input: impl Arg<A::Input>,
) -> Operation {
    let subject = Subject::Activity(undo.name().into());
    let input = store_or_panic(&subject, input.payload());
    planned(operation, undo, UndoInput::Given(input))
}

fn planned<A: Activity<K>, K>(operation: Operation, undo: A, input: UndoInput) -> Operation {
    let (name, options) = (ActivityType::new(undo.name()), undo.defaults().options());
    operation.undo_with(name, options, input)
}
