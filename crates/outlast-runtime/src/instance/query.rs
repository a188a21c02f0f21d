//! Questions about the settled state of a run, and those that every run answers.
//!
//! A question runs under the read-only guard. What slips through it (waking a branch through a
//! channel, cancelling a call) shows as unrest between slices: the answer is an error, and the
//! instance is given up, since it is no longer what its history says.

use std::collections::BTreeMap;
use std::rc::Rc;

use outlast_model::failure::type_name;
use outlast_model::task::{Query, builtin_query};
use outlast_model::{Failure, Payload};

use super::Instance;
use crate::cell::OperationCell;
use crate::context::Context;
use crate::executor::Task;
use crate::failure::unknown_handler;
use crate::guard::Reader;
use crate::program::SliceWatch;
use crate::slab::{Entry, Presence};
use crate::wake::TaskId;

impl Instance {
    /// Answers one question. One that disturbs the instance fails; look at
    /// [`is_at_rest`](Self::is_at_rest) afterwards.
    ///
    /// # Errors
    /// What the handler said; or it panicked, tried to change something, or there is none.
    pub(crate) fn query(
        &mut self,
        query: &Query,
        watch: &dyn SliceWatch,
    ) -> Result<Payload, Failure> {
        self.in_slice(|instance| Ok(instance.ask(query, watch)))
            .unwrap_or_else(|failed| Err(failed.failure))
    }

    /// Whether it is as its last slice left it.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.shared.is_at_rest()
    }

    fn ask(&self, query: &Query, watch: &dyn SliceWatch) -> Result<Payload, Failure> {
        match query.name.as_str() {
            builtin_query::STACK => text(&self.stack().join("\n")),
            builtin_query::HANDLERS => self.handlers(),
            builtin_query::STATE => {
                let view = self.shared.questions.borrow().state_view();
                let view = view.ok_or_else(|| {
                    let text = "this workflow does not show its state";
                    Failure::application(type_name::UNKNOWN_HANDLER, text)
                })?;
                self.read(query, watch, |ctx| view(ctx))
            }
            name => {
                let handler = self.shared.questions.borrow().handler(&query.name);
                let handler = handler.ok_or_else(|| {
                    let questions = self.shared.questions.borrow();
                    unknown_handler("query", name, questions.names())
                })?;
                let interceptors = self.shared.interceptors();
                self.read(query, watch, |ctx| match interceptors {
                    None => handler(ctx, query),
                    Some(all) => all.query(ctx, query.clone(), &handler),
                })
            }
        }
    }

    /// Runs code that answers.
    fn read(
        &self,
        query: &Query,
        watch: &dyn SliceWatch,
        answer: impl FnOnce(Context) -> Result<Payload, Failure>,
    ) -> Result<Payload, Failure> {
        let shared = &self.shared;
        let entered = watch.enter(&format!("query `{}`", query.name), None);
        entered.map_err(|given_up| given_up.failure)?;
        // The code of a run that has ended may have had more to do: nobody will.
        let was_at_rest = shared.is_at_rest();
        let header = shared.header.get();
        shared.header.set(crate::shared::Header {
            is_replaying: true,
            ..header
        });
        shared.begin_poll(&shared.main_scope);
        let answered = {
            let _polling = Entry::new(shared.address, Presence::Polling);
            let ctx = Context::at(shared.address);
            shared.read_only(Reader::Query, || answer(ctx))
        };
        shared.header.set(header);
        if was_at_rest && !shared.is_at_rest() {
            let text = format!(
                "query `{}` has changed the run: it may only read",
                query.name
            );
            return Err(Failure::application(type_name::READ_ONLY, text));
        }
        answered?
    }
}

/// What every run answers.
impl Instance {
    /// One line per branch: its name, and what it waits for.
    fn stack(&self) -> Vec<String> {
        let mut awaited: BTreeMap<TaskId, Vec<String>> = BTreeMap::new();
        let open: Vec<Rc<OperationCell>> = self.shared.open.borrow().values().cloned().collect();
        for cell in open {
            if let Some(task) = cell.awaited_by.get() {
                awaited.entry(task).or_default().push(cell.title());
            }
        }
        let tasks = self.executor.tasks.iter();
        tasks
            .map(|(id, task)| line(task, awaited.get(id)))
            .collect()
    }

    fn handlers(&self) -> Result<Payload, Failure> {
        let (mailbox, questions) = (self.shared.mailbox.borrow(), self.shared.questions.borrow());
        let lists: BTreeMap<&str, Vec<BTreeMap<&str, &str>>> = BTreeMap::from([
            ("signals", named(mailbox.signal_handlers())),
            ("updates", named(mailbox.update_handlers())),
            ("queries", named(questions.names())),
            ("promises", named(mailbox.promises.awaited())),
        ]);
        Payload::encode(&lists).map_err(|error| Failure::panic(error.to_string()))
    }
}

fn line(task: &Task, awaited: Option<&Vec<String>>) -> String {
    match awaited {
        Some(awaited) => format!("{} waits for {}", task.name, awaited.join(", ")),
        None => format!("{} waits inside the run", task.whence()),
    }
}

fn named<'a>(names: impl Iterator<Item = &'a str>) -> Vec<BTreeMap<&'a str, &'a str>> {
    names.map(|name| BTreeMap::from([("name", name)])).collect()
}

fn text(text: &str) -> Result<Payload, Failure> {
    Payload::encode(text).map_err(|error| Failure::panic(error.to_string()))
}
