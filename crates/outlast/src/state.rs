//! Dependencies of activities, and the proof that they were given.
//!
//! The builder keeps the types of its states in a list made of pairs: `(A, (B, ()))`. An
//! activity's extractors are such a list too; registering it asks the compiler to find each in
//! the builder's list. The index parameters tell the compiler where it was found; nobody writes
//! them.

use std::any::{Any, TypeId, type_name};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use crate::activity::ActivityCtx;
use crate::intercept::Attempts;

/// A dependency given to the builder with `.state(value)`: a client, a pool, settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State<T>(pub T);

/// The values given to the builder, by type.
#[derive(Clone, Default)]
pub(crate) struct States {
    values: Arc<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    /// Known when the application starts; all copies see it.
    interceptors: Arc<OnceLock<Attempts>>,
}

impl States {
    /// Adds a value; a second one of the same type replaces the first.
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        Arc::make_mut(&mut self.values).insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// Who is around attempts from now on.
    pub(crate) fn intercept_with(&self, attempts: Attempts) {
        self.interceptors.get_or_init(|| attempts);
    }

    /// Who is around attempts.
    pub(crate) fn interceptors(&self) -> Option<&Attempts> {
        self.interceptors.get()
    }

    fn get<T: Clone + 'static>(&self) -> Option<T> {
        self.values
            .get(&TypeId::of::<T>())?
            .downcast_ref::<T>()
            .cloned()
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} states", self.values.len())
    }
}

/// Something an activity can take before its input.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be given to an activity",
    label = "not an extractor",
    note = "an activity takes extractors first (`ActivityCtx`, `State<T>`) and at most one input, last"
)]
pub trait FromActivity: Sized {
    /// Takes it out of the attempt's context.
    fn from_activity(ctx: &ActivityCtx) -> Self;
}

impl FromActivity for ActivityCtx {
    fn from_activity(ctx: &ActivityCtx) -> Self {
        ctx.clone()
    }
}

impl<T: Clone + Send + Sync + 'static> FromActivity for State<T> {
    fn from_activity(ctx: &ActivityCtx) -> Self {
        match ctx.states().get() {
            Some(value) => Self(value),
            // The builder's types rule this out; an `ActivityCtx::test()` may get here.
            None => panic!("no `State<{}>` was given", type_name::<T>()),
        }
    }
}

/// Where in the list: at its head.
#[derive(Debug)]
pub struct Here;

/// Where in the list: further down.
#[derive(Debug)]
pub struct There<I>(PhantomData<I>);

/// The list of states has a `T`.
#[diagnostic::on_unimplemented(
    message = "this activity needs `State<{T}>`, but no `{T}` was given",
    label = "missing `.state(..)`",
    note = "call `.state(value)` with a `{T}` on the builder before this line"
)]
pub trait Has<T, I> {}

impl<T, R> Has<T, Here> for (T, R) {}
impl<T, X, R: Has<T, I>, I> Has<T, There<I>> for (X, R) {}

/// The extractor can be had from the list of states.
pub trait Extract<L, I> {}

impl<L> Extract<L, ()> for ActivityCtx {}
impl<T, L: Has<T, I>, I> Extract<L, I> for State<T> {}

/// All extractors of a list can be had from the list of states.
pub trait ProvidedBy<L, I> {}

impl<L> ProvidedBy<L, ()> for () {}
impl<L, E, R, I, J> ProvidedBy<L, (I, J)> for (E, R)
where
    E: Extract<L, I>,
    R: ProvidedBy<L, J>,
{
}
