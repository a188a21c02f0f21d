//! Who answers questions about a run.
//!
//! Questions change nothing and are never recorded, so nobody waits for one to find its handler:
//! an unknown one fails at once, and says which are known.

use std::collections::BTreeMap;
use std::rc::Rc;

use outlast_model::QueryName;

use crate::program::{QueryHandler, StateView};

#[derive(Default)]
pub(crate) struct Questions {
    handlers: BTreeMap<QueryName, QueryHandler>,
    any: Option<QueryHandler>,
    state: Option<StateView>,
}

impl Questions {
    pub(crate) fn handle(&mut self, name: QueryName, handler: QueryHandler) {
        self.handlers.insert(name, handler);
    }

    pub(crate) fn handle_any(&mut self, handler: QueryHandler) {
        self.any = Some(handler);
    }

    pub(crate) fn show_state(&mut self, view: StateView) {
        self.state = Some(view);
    }

    /// Who answers this one.
    pub(crate) fn handler(&self, name: &QueryName) -> Option<QueryHandler> {
        self.handlers.get(name).or(self.any.as_ref()).map(Rc::clone)
    }

    /// Who shows the state.
    pub(crate) fn state_view(&self) -> Option<StateView> {
        self.state.clone()
    }

    /// All names that are known, `*` for any other.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let any = self.any.as_ref().map(|_| "*");
        self.handlers.keys().map(QueryName::as_str).chain(any)
    }
}
