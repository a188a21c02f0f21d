//! Where a run rests that nothing with an event can move, for people who ask why it does not.
//!
//! Only then: while an activity or a timer is open the engine can name it, and what waits beside
//! it would have to be told again with every slice.

use outlast_model::limits;
use outlast_model::rest::{Await, Awaited, Rest, Unread};

use crate::cell::{Kind, OperationCell, Subject};
use crate::instance::Instance;
use crate::shared::{Shared, site};

impl Instance {
    /// Where it rests and what it has not taken; nothing if it waits for what has events and has
    /// taken all.
    pub(crate) fn rest(&self) -> Option<Box<Rest>> {
        let at = self.awaits();
        let unread = self.shared.unread();
        (!at.is_empty() || !unread.is_empty()).then(|| Box::new(Rest { at, unread }))
    }

    fn awaits(&self) -> Vec<Await> {
        if self.is_closed() {
            return Vec::new();
        }
        match self.shared.awaits() {
            None => Vec::new(),
            Some(at) if at.is_empty() => self.between_branches().into_iter().collect(),
            Some(at) => at,
        }
    }

    /// Where one branch waits for another, main first.
    fn between_branches(&self) -> Option<Await> {
        let mut tasks = self.executor.tasks.values();
        let site = tasks.find_map(|task| task.last_call.clone())?;
        let what = Awaited::Branch;
        Some(Await { what, site })
    }
}

impl Shared {
    /// Some of the waits of a run that waits for nothing that has an event; `None` if it does.
    fn awaits(&self) -> Option<Vec<Await>> {
        let open = self.open.borrow();
        // Kinds that have no event come last.
        let is_known = |kind: Kind| !matches!(kind, Kind::Promise | Kind::Recv);
        if open.keys().next().is_some_and(|key| is_known(key.kind)) {
            return None;
        }
        let messages = open.values().filter_map(|cell| message(cell));
        let conditions = self.conditions.borrow();
        let conditions = conditions.places().map(|place| Await {
            what: Awaited::Condition,
            site: site(place),
        });
        Some(messages.chain(conditions).take(limits::RESTS).collect())
    }

    /// Some of the signals that nobody took, by name.
    fn unread(&self) -> Vec<Unread> {
        let mailbox = self.mailbox.borrow();
        let unread = mailbox.unread().filter(|(_, count)| *count > 0);
        let unread = unread.map(|(name, count)| Unread {
            name: name.clone(),
            count: u32::try_from(count).unwrap_or(u32::MAX),
        });
        unread.take(limits::RESTS).collect()
    }
}

fn message(cell: &OperationCell) -> Option<Await> {
    let what = match &cell.subject {
        Subject::Recv { name } => Awaited::Signal(name.clone()),
        Subject::Promise { id } => Awaited::Promise(id.clone()),
        Subject::Activity { .. }
        | Subject::Timer
        | Subject::Step { .. }
        | Subject::Child(_)
        | Subject::ExternalSignal { .. }
        | Subject::ExternalCancel { .. } => return None,
    };
    let site = cell.site.clone();
    Some(Await { what, site })
}
