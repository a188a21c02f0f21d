//! A task queue of an application: what runs on it, and how. Everything that names no queue lives
//! on `default`; a queue of its own has slots, a cache and settings of its own, so that one that
//! is full never holds up another.

use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use outlast_model::task::SlotKind;
use outlast_model::{ActivityType, QueueName, WorkflowType};
use outlast_worker::settings::{Scope, TABLE, check};
use outlast_worker::{ActivityCode, QueueSpec, Registry, Settings, SlotSupplier};

use crate::activity::{ActivityCtx, ActivityDef, ActivityFn, ActivityMeta};
use crate::config::Config;
use crate::ctx::Ctx;
use crate::erase::{AnyProgram, activity_code, closure_code, closure_program, workflow_program};
use crate::error::{Error, Result};
use crate::failure::IntoFailure;
use crate::state::{ProvidedBy, States};
use crate::wire::{Data, Outcome};
use crate::workflow::{WorkflowDef, WorkflowFn, WorkflowMeta};

/// A task queue that is being put together: see [`Builder::queue`](crate::Builder::queue).
#[must_use = "hand it back to the builder"]
pub struct QueueBuilder<L = ()> {
    pub(crate) part: QueuePart,
    pub(crate) states: States,
    pub(crate) list: PhantomData<fn() -> L>,
}

impl<L> std::fmt::Debug for QueueBuilder<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueueBuilder")
            .field("registry", &self.part.registry)
            .finish_non_exhaustive()
    }
}

impl<L: 'static> QueueBuilder<L> {
    /// An `#[activity]` function that can run on this queue.
    pub fn activity<A, K, I>(mut self, activity: A) -> Self
    where
        A: ActivityFn<K>,
        A::Extractors: ProvidedBy<L, I>,
    {
        let code = activity_code::<A::Meta>(self.states.clone());
        let (file, line) = A::Meta::AT;
        self.part
            .add_activity(activity.name(), format!("{file}:{line}"), code);
        self
    }

    /// The code of a definition.
    pub fn bind<I, O, E, F, W>(mut self, definition: ActivityDef<I, O, E>, code: F) -> Self
    where
        I: Data,
        O: Data,
        E: IntoFailure,
        F: Fn(ActivityCtx, I) -> W + Send + Sync + 'static,
        W: Future<Output = std::result::Result<O, E>> + Send + 'static,
    {
        let name = crate::activity::Activity::name(&definition);
        let code = closure_code(name, self.states.clone(), code);
        let at = "a definition bound with .bind(..)".into();
        self.part.add_activity(name, at, code);
        self
    }

    /// A `#[workflow]` that can run on this queue.
    pub fn workflow<W: WorkflowFn<K>, K>(mut self, workflow: W) -> Self {
        let (file, line) = W::Meta::AT;
        let program = workflow_program::<W::Meta>();
        self.part
            .add_workflow(workflow.name(), format!("{file}:{line}"), program);
        self
    }

    /// The code of a workflow definition.
    pub fn bind_workflow<I, O, E, F, R, W>(
        mut self,
        definition: WorkflowDef<I, O, E>,
        main: F,
    ) -> Self
    where
        I: Data,
        O: Data,
        E: IntoFailure,
        R: Outcome<Ok = O, Err = E> + 'static,
        F: Fn(Ctx, I) -> W + Send + Sync + 'static,
        W: Future<Output = R> + 'static,
    {
        let name = crate::workflow::Workflow::name(&definition);
        let at = "a definition bound with .bind_workflow(..)".into();
        let program = closure_program(name, main);
        self.part.add_workflow(name, at, program);
        self
    }

    /// Attempts of activities at a time.
    pub fn slots(self, count: usize) -> Self {
        self.settings(move |settings| settings.activity_slots = count)
    }

    /// Changes settings for this queue; what is not changed is as in the rest of the application.
    pub fn settings(mut self, change: impl FnOnce(&mut Settings) + Send + 'static) -> Self {
        self.part.changes.push(Box::new(change));
        self
    }

    /// Slots of a kind come from here, whatever the settings say.
    pub fn slot_supplier(mut self, kind: SlotKind, supplier: impl SlotSupplier + 'static) -> Self {
        self.part.suppliers.insert(kind, Arc::new(supplier));
        self
    }
}

type Change = Box<dyn FnOnce(&mut Settings) + Send>;

/// What was said about one task queue so far.
#[derive(Default)]
pub(crate) struct QueuePart {
    pub(crate) registry: Registry,
    /// Kind, name and place of every registration, to find two of one name.
    names: Vec<(&'static str, &'static str, String)>,
    changes: Vec<Change>,
    suppliers: BTreeMap<SlotKind, Arc<dyn SlotSupplier>>,
}

impl QueuePart {
    fn add_activity(&mut self, name: &'static str, at: String, code: ActivityCode) {
        self.names.push(("activity", name, at));
        self.registry
            .activities
            .insert(ActivityType::new(name), code);
    }

    fn add_workflow(&mut self, name: &'static str, at: String, program: AnyProgram) {
        self.names.push(("workflow", name, at));
        self.registry
            .workflows
            .insert(WorkflowType::new(name), program);
    }

    pub(crate) fn check_names(&self, queue: &QueueName) -> Result<()> {
        for (index, (kind, name, at)) in self.names.iter().enumerate() {
            let same = |(k, n, _): &&(&str, &str, String)| k == kind && n == name;
            if let Some((_, _, first)) = self.names[..index].iter().find(same) {
                return Err(Error::msg(format!(
                    "two {kind} registrations of queue {queue} are named {name:?}: {first} and \
                     {at}; rename one with #[{kind}(name = \"..\")]"
                )));
            }
        }
        Ok(())
    }

    /// As it is to be served, in an application with these settings.
    pub(crate) fn finish(
        self,
        queue: &QueueName,
        of_all: &Settings,
        config: &Config,
    ) -> Result<QueueSpec> {
        let mut settings = of_all.clone();
        for change in self.changes {
            change(&mut settings);
        }
        config.apply_to(queue, &mut settings);
        check_scopes(queue, of_all, &settings)?;
        let broken = check(&settings);
        if !broken.is_empty() {
            let told = broken
                .iter()
                .map(|found| match config.origin(queue, found.key) {
                    Some(origin) => format!("{origin}: {found}"),
                    None => found.to_string(),
                });
            let texts = told.collect::<Vec<String>>().join("; ");
            return Err(Error::msg(format!("settings of queue {queue}: {texts}")));
        }
        Ok(QueueSpec {
            registry: self.registry,
            settings,
            suppliers: self.suppliers,
        })
    }
}

/// A queue cannot change what there is one of in the whole application.
fn check_scopes(queue: &QueueName, of_all: &Settings, of_queue: &Settings) -> Result<()> {
    let is_changed = |show: fn(&Settings) -> String| show(of_all) != show(of_queue);
    let one_of = TABLE
        .iter()
        .filter(|setting| setting.scope == Scope::Application);
    match one_of.clone().find(|setting| is_changed(setting.show)) {
        None => Ok(()),
        Some(setting) => Err(Error::msg(format!(
            "queue {queue} cannot have a {} of its own: it holds for the whole application; set \
             it with .settings(..) of the builder",
            setting.key
        ))),
    }
}
