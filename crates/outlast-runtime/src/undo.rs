//! Undoing what a run has done, when its main function failed or was cancelled.
//!
//! Each operation that was given an undo leaves one entry when it completed, or when nobody knows
//! whether it took effect; they run last first, one after another, in a shield, since clean-up
//! must not be cut short by the very cancel that caused it. An undo that fails is told and the
//! rest goes on: stopping half-way would leave more behind.
//!
//! ```text
//!            sent              outcome: completed, or unknown
//!   Planned ------> Handed out ------------------------------> Due --main failed--> run
//!      |                |    \                                  ^
//!      | taken back     |     +--nobody waits--> Registered ----+
//!      v                v failed                     | failed
//!   (nothing)       (nothing) <----------------------+
//! ```
//!
//! A call stays registered when it loses a race, runs out of time, is dropped or cancelled: it
//! may still take effect. Undoing begins when the outcome of all of them is known.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use outlast_model::event::Site;
use outlast_model::failure::type_name;
use outlast_model::planted::{Bug, is_planted};
use outlast_model::{
    ActivityOptions, ActivityType, CancelMode, ChildCancel, Command, Failure, FailureKind, Headers,
    Payload, Resolution,
};

use crate::cell::{Key, Kind, OperationCell, State, Wish};
use crate::intercept::ActivityCall;
use crate::scope::Side;
use crate::shared::Shared;

/// The future that undoes.
pub(crate) type UndoFuture = Pin<Box<dyn Future<Output = ()>>>;

/// What an undo is given.
#[derive(Clone, Debug, PartialEq)]
pub enum UndoInput {
    /// The result of the call; and instead of it, where nobody knows it, this.
    Result {
        /// Without one it cannot run then.
        unknown: Option<Payload>,
    },
    /// This, whatever the result is.
    Given(Payload),
}

impl UndoInput {
    fn for_effect(self, effect: Effect<'_>, call: impl FnOnce() -> String) -> Option<Due> {
        match (effect, self) {
            (Effect::None, Self::Result { .. } | Self::Given(_)) => None,
            (Effect::Done(_) | Effect::Unknown, Self::Given(input)) => Some(Due::With(input)),
            (Effect::Done(result), Self::Result { .. }) => Some(Due::With(result.clone())),
            (
                Effect::Unknown,
                Self::Result {
                    unknown: Some(input),
                },
            ) => Some(Due::With(input)),
            (Effect::Unknown, Self::Result { unknown: None }) => {
                Some(Due::Impossible { call: call() })
            }
        }
    }
}

/// How to undo an operation.
pub(crate) struct UndoPlan {
    pub(crate) activity_type: ActivityType,
    pub(crate) options: ActivityOptions,
    pub(crate) input: UndoInput,
    /// The events in the history when the call was sent: what ends in the same task never began.
    pub(crate) sent_at: u64,
}

/// One action to take.
#[derive(Clone)]
pub(crate) struct Undo {
    pub(crate) activity_type: ActivityType,
    due: Due,
    options: ActivityOptions,
    /// The call that is undone.
    pub(crate) site: Site,
}

/// What an undo that is due is given.
#[derive(Clone)]
enum Due {
    With(Payload),
    /// This call may have taken effect, but its undo wants a result.
    Impossible {
        call: String,
    },
}

/// A call that nobody waits for any more, and whose outcome is still to come.
pub(crate) struct Registered {
    plan: Box<UndoPlan>,
    site: Site,
    title: String,
    /// What asks it to stop, if nobody has asked yet.
    untold: Option<Command>,
}

/// All of them, and who waits for their outcomes.
#[derive(Default)]
pub(crate) struct Registry {
    calls: BTreeMap<Key, Registered>,
    reach: Reach,
    waker: Option<Waker>,
}

/// Whose calls are stopped and undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Those of main and its branches: handlers still work.
    #[default]
    Main,
    /// Those of handlers as well: all of them have ended.
    Everything,
}

impl Reach {
    fn includes(self, cell: &OperationCell) -> bool {
        match self {
            Self::Main => cell.scope.borrow().side == Side::Main,
            Self::Everything => true,
        }
    }
}

/// Whether a call took effect.
#[derive(Clone, Copy)]
enum Effect<'a> {
    None,
    Done(&'a Payload),
    Unknown,
}

impl<'a> Effect<'a> {
    fn of(resolution: &'a Resolution) -> Self {
        match resolution {
            Resolution::Completed(result) => Self::Done(result),
            // It was told to stop, and stopped: before its effect or behind it.
            Resolution::Canceled(_) => Self::Unknown,
            Resolution::Failed(failure, _) => Self::of_failure(failure),
        }
    }

    /// Code that says that it failed has not done it. Whatever ended it from outside says nothing.
    fn of_failure(failure: &Failure) -> Self {
        let own = match &failure.kind {
            FailureKind::Child { .. } | FailureKind::Activity { .. } => failure.cause.as_ref(),
            FailureKind::Timeout { .. }
            | FailureKind::Canceled { .. }
            | FailureKind::Terminated
            | FailureKind::Server { .. }
            | FailureKind::Application { .. } => None,
        };
        match &own.unwrap_or(failure).kind {
            FailureKind::Timeout { .. }
            | FailureKind::Canceled { .. }
            | FailureKind::Terminated
            | FailureKind::Server { .. } => Self::Unknown,
            FailureKind::Activity { .. } | FailureKind::Child { .. } => Self::None,
            FailureKind::Application { type_name, .. } => {
                // It was done, or may be, and only its result is lost.
                let lost = [
                    type_name::WORKER_LOST,
                    type_name::TOO_LARGE,
                    type_name::ENCODE,
                ];
                if lost.contains(&type_name.as_str()) {
                    Self::Unknown
                } else {
                    Self::None
                }
            }
        }
    }
}

/// Runs all actions, last first, as soon as it is known which there are.
pub(crate) fn run(shared: Rc<Shared>) -> UndoFuture {
    Box::pin(async move {
        loop {
            outcomes(&shared).await;
            let Some(undo) = shared.undo.borrow_mut().pop() else {
                return;
            };
            act(&shared, undo).await;
        }
    })
}

/// Ready when no outcome is open that could leave something to undo.
async fn outcomes(shared: &Shared) {
    poll_fn(|cx| {
        if !shared.awaits_outcomes() {
            return Poll::Ready(());
        }
        shared.registry.borrow_mut().waker = Some(cx.waker().clone());
        Poll::Pending
    })
    .await;
}

async fn act(shared: &Rc<Shared>, undo: Undo) {
    let Undo {
        activity_type,
        due,
        options,
        site,
    } = undo;
    let (name, told) = (activity_type.clone(), site.clone());
    let input = match due {
        Due::With(input) => input,
        Due::Impossible { call } => {
            shared.warn_live(|| {
                format!(
                    "undo `{name}` of {call} did not run: it is not known whether the call took \
                     effect, and there is no result to undo it by; look after it by hand, and use \
                     `.undo_with({name}, key)` with a key that is known before the call, or let \
                     `{name}` take an `Option` of the result"
                )
            });
            return;
        }
    };
    let call = ActivityCall {
        activity_type,
        input,
        options,
        headers: Headers::new(),
    };
    match shared.schedule_activity(call, site).await {
        Resolution::Completed(_) => {}
        Resolution::Failed(failure, _) => {
            shared.warn_live(|| format!("undo `{name}` of the call at {told} failed: {failure}"));
        }
        Resolution::Canceled(_) => {
            shared.warn_live(|| format!("undo `{name}` of the call at {told} was cancelled"));
        }
    }
}

/// Planned, handed out, registered, due.
impl Shared {
    /// The command leaves. A backend tells how a cancelled call ends only in mode *wait*, so one
    /// that can be undone is sent in it; its future hears of a cancel as its own mode says.
    pub(crate) fn hand_out(&self, cell: &OperationCell, command: &mut Command) {
        let mut plan = cell.undo.borrow_mut();
        let Some(plan) = plan.as_deref_mut() else {
            return;
        };
        plan.sent_at = self.header.get().history_events;
        if !self.rules.undo_outlasts_the_wait() {
            return;
        }
        if let Command::ScheduleActivity(command) = command {
            if command.options.cancel != CancelMode::Wait {
                command.options.cancel = CancelMode::Wait;
            }
        } else if let Command::StartChild(command) = command {
            command.options.cancel = ChildCancel::Wait;
        }
    }

    /// Whether it has an undo that outlasts the wait for it.
    pub(crate) fn stays_registered(&self, cell: &OperationCell) -> bool {
        self.rules.undo_outlasts_the_wait()
            && matches!(cell.key.kind, Kind::Activity | Kind::Child)
            && cell.undo.borrow().is_some()
    }

    /// Nobody waits for it any more; it was told so, or not.
    pub(crate) fn register(&self, cell: &OperationCell, is_told: bool) {
        let Some(plan) = cell.undo.borrow_mut().take() else {
            return;
        };
        if is_planted(Bug::UndoForgotten) {
            return;
        }
        let registered = Registered {
            plan,
            site: cell.site.clone(),
            title: cell.title(),
            untold: cell.cancel_command().filter(|_| !is_told),
        };
        let mut registry = self.registry.borrow_mut();
        registry.calls.insert(cell.key, registered);
    }

    /// The outcome of a call that somebody waits for.
    pub(crate) fn remember_undo(&self, cell: &OperationCell, resolution: &Resolution) {
        let plan = cell.undo.borrow_mut().take();
        if let Some(plan) = plan {
            self.outcome_known(*plan, &cell.site, resolution, || cell.title());
        }
    }

    /// The outcome of a call that nobody waits for any more.
    pub(crate) fn registered_ended(&self, key: Key, resolution: &Resolution) {
        let registered = self.registry.borrow_mut().calls.remove(&key);
        if let Some(Registered {
            plan, site, title, ..
        }) = registered
        {
            self.outcome_known(*plan, &site, resolution, || title);
        }
    }

    fn outcome_known(
        &self,
        plan: UndoPlan,
        site: &Site,
        resolution: &Resolution,
        title: impl FnOnce() -> String,
    ) {
        let UndoPlan {
            activity_type,
            options,
            input,
            sent_at,
        } = plan;
        let is_taken_back = self.header.get().history_events == sent_at;
        let effect = match Effect::of(resolution) {
            Effect::Unknown if is_taken_back || !self.rules.undo_outlasts_the_wait() => {
                Effect::None
            }
            effect @ (Effect::None | Effect::Done(_) | Effect::Unknown) => effect,
        };
        if let Some(due) = input.for_effect(effect, title) {
            let site = site.clone();
            let undo = Undo {
                activity_type,
                due,
                options,
                site,
            };
            if is_planted(Bug::UndoTwice) {
                self.undo.borrow_mut().push(undo.clone());
            }
            self.undo.borrow_mut().push(undo);
        }
        let waker = self.registry.borrow_mut().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Main has failed.
impl Shared {
    /// Whether there is something to undo, or may be.
    pub(crate) fn may_have_to_undo(&self) -> bool {
        let is_due = !self.undo.borrow().is_empty();
        is_due
            || (self.rules.undo_outlasts_the_wait()
                && (!self.registry.borrow().calls.is_empty()
                    || self.open.borrow().values().any(|cell| cell.is_handed_out())))
    }

    /// Whether undoing waits for outcomes.
    pub(crate) fn awaits_outcomes(&self) -> bool {
        let reach = self.registry.borrow().reach;
        let is_awaited = |cell: &Rc<OperationCell>| {
            cell.is_handed_out() && (reach.includes(cell) || cell.is_cancelled.get())
        };
        self.rules.undo_outlasts_the_wait()
            && (!self.registry.borrow().calls.is_empty()
                || self.open.borrow().values().any(is_awaited))
    }

    /// Asks everything to stop whose outcome is awaited: what was left to itself, too.
    pub(crate) fn stop_what_may_be_undone(&self, reach: Reach) {
        self.registry.borrow_mut().reach = reach;
        if !self.rules.undo_outlasts_the_wait() {
            return;
        }
        let left: Vec<Rc<OperationCell>> = {
            let open = self.open.borrow();
            let left = open.values().filter(|cell| cell.undo.borrow().is_some());
            left.filter(|cell| reach.includes(cell)).cloned().collect()
        };
        for cell in left {
            self.carry_out(&cell, Wish::Dropped);
        }
        let mut registry = self.registry.borrow_mut();
        let untold = registry.calls.values_mut();
        for command in untold.filter_map(|call| call.untold.take()) {
            self.answer(command);
        }
    }

    /// Names and calls of all that may have to be undone.
    pub(crate) fn undos(&self) -> Vec<(ActivityType, Site)> {
        let undo = self.undo.borrow();
        let due = undo.iter().map(|undo| (&undo.activity_type, &undo.site));
        let mut all: Vec<_> = due
            .map(|(name, site)| (name.clone(), site.clone()))
            .collect();
        let registry = self.registry.borrow();
        let registered = registry.calls.values();
        all.extend(registered.map(|call| (call.plan.activity_type.clone(), call.site.clone())));
        all
    }
}

impl OperationCell {
    /// Whether it has an undo, and its command has left.
    fn is_handed_out(&self) -> bool {
        let is_sent = matches!(*self.state.borrow(), State::Sent | State::Canceling);
        is_sent && self.undo.borrow().is_some()
    }
}
