//! What a run knows of others: its children, what it says to other runs, and the updates that
//! clients wait for.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use outlast_model::event::{
    CancelInitiated, CancelOf, ChildEvent, ExternalEvent, SignalInitiated, UpdateEvent,
    UpdateRequest,
};
use outlast_model::id::{EventId, RunId, Seq, UpdateId};
use outlast_model::job::{Job, UpdateJob};
use outlast_model::record::AcceptedBefore;
use outlast_model::rest::Rest;
use outlast_model::{Failure, limits};

use super::{Corrupt, Run, out_of_place};
use crate::child::{self, Child};
use crate::update::{State, Unwritten, Update};
use crate::workflow_task;

impl Run {
    /// Open children.
    pub fn children(&self) -> impl Iterator<Item = (Seq, &Child)> {
        self.children.iter().map(|(seq, c)| (*seq, c))
    }

    /// One open child.
    pub fn child(&self, seq: Seq) -> Option<&Child> {
        self.children.get(&seq)
    }

    /// Messages to other runs that have not been answered for.
    pub fn signals(&self) -> impl Iterator<Item = &SignalInitiated> {
        self.signals.values().map(Box::as_ref)
    }

    /// Requests to other runs that have not been answered for.
    pub fn cancels(&self) -> impl Iterator<Item = &CancelInitiated> {
        self.cancels.values().map(Box::as_ref)
    }

    /// Updates that history knows.
    pub fn updates(&self) -> impl Iterator<Item = (&UpdateId, &Update)> {
        self.updates.iter()
    }

    /// One update that history knows.
    pub fn update(&self, id: &UpdateId) -> Option<&Update> {
        self.updates.get(id)
    }

    /// The earlier run of the chain that accepted an update, and has its answer.
    pub fn accepted_before(&self, id: &UpdateId) -> Option<RunId> {
        let earlier = self.accepted_before.get(id).copied();
        earlier.filter(|_| !self.updates.contains_key(id))
    }

    pub(super) fn inherit_updates(&mut self, updates: &[AcceptedBefore]) {
        let updates = updates.iter().map(|u| (u.id.clone(), u.run_id));
        self.accepted_before.extend(updates);
    }

    /// The updates that were accepted in this chain, the newest: what the next run must know.
    pub(crate) fn accepted_in_chain(&self) -> Vec<AcceptedBefore> {
        let own = self
            .updates
            .iter()
            .filter(|(_, update)| update.is_accepted());
        let own = own.map(|(id, _)| (self.started.run_id, id));
        let before = self
            .accepted_before
            .iter()
            .map(|(id, run_id)| (*run_id, id));
        let mut all: Vec<(RunId, &UpdateId)> = before.chain(own).collect();
        // Ids of runs follow each other in time.
        all.sort_unstable();
        let newest = all.len().saturating_sub(limits::UPDATES_INHERITED);
        let newest = all.into_iter().skip(newest);
        newest
            .map(|(run_id, id)| AcceptedBefore {
                id: id.clone(),
                run_id,
            })
            .collect()
    }

    /// What workflow code had to say that is no failure, the newest last.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Signals that nobody has taken.
    pub fn unhandled_signals(&self) -> u32 {
        self.unhandled_signals
    }

    /// Where its code rests, and what it has not taken.
    pub fn rest(&self) -> Option<&Rest> {
        self.rest.as_deref()
    }

    /// Whether updates wait that only memory knows: they must be written before the run sleeps.
    pub fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    pub(crate) fn open_updates(&self) -> usize {
        self.open_updates.len() + self.unwritten.len()
    }

    /// Updates that were accepted and have no outcome.
    pub(crate) fn accepted_updates(&self) -> Vec<UpdateId> {
        let is_accepted = |id: &&UpdateId| {
            let update = self.update(id);
            update.is_some_and(|update| update.state == State::Accepted)
        };
        let open = self.open_updates.iter();
        open.filter(is_accepted).cloned().collect()
    }

    /// A snapshot does not say which updates are open: they say so themselves.
    pub(super) fn find_open_updates(&mut self) {
        let open = self.updates.iter().filter(|(_, update)| update.is_open());
        self.open_updates = open.map(|(id, _)| id.clone()).collect();
    }

    pub(crate) fn is_signal_pending(&self, seq: Seq) -> bool {
        self.signals.contains_key(&seq)
    }

    pub(crate) fn is_cancel_pending(&self, of: CancelOf) -> bool {
        self.cancels.contains_key(&of)
    }

    pub(crate) fn is_unwritten(&self, id: &UpdateId) -> bool {
        self.unwritten.contains_key(id)
    }

    /// Workflow code will be given this update; history does not know it.
    pub(crate) fn wait_unwritten(&mut self, request: UpdateRequest) {
        let behind = EventId(self.next_event.0 - 1);
        let (id, job) = (request.id.clone(), request.clone());
        self.unseen.push(Job::Update(Box::new(UpdateJob {
            request: job,
            run_validator: true,
        })));
        self.unwritten.insert(id, Unwritten { request, behind });
    }

    pub(crate) fn take_unwritten(&mut self, id: &UpdateId) -> Option<Unwritten> {
        self.unwritten.remove(id)
    }

    /// The updates that only memory knows, in the order in which they came.
    pub(crate) fn unwritten_requests(&self) -> Vec<UpdateRequest> {
        let given = self.unseen.iter().filter_map(crate::update::given_update);
        let waiting = given.filter_map(|update| self.unwritten.get(&update.request.id));
        waiting.map(|unwritten| unwritten.request.clone()).collect()
    }

    /// Where the slice that accepts an update was given it.
    pub(crate) fn position_of(&self, id: &UpdateId) -> Option<EventId> {
        let written = match &self.updates.get(id)?.state {
            State::Admitted { behind } => *behind,
            State::Accepted | State::Completed(_) | State::Rejected(_) => return None,
        };
        Some(self.seen_behind.get(id).copied().unwrap_or(written))
    }

    /// The slice that had seen them is over.
    pub(crate) fn forget_positions(&mut self) {
        self.seen_behind.clear();
    }

    /// From here on nothing happened yet: if all that comes is turned away, it never did.
    pub(crate) fn speculate(&mut self) {
        if self.task == workflow_task::State::Idle && self.speculation.is_none() {
            self.speculation = Some((self.next_event, self.last_event_time));
        }
    }

    /// Something happened that will be written.
    pub(crate) fn is_speculative_no_more(&mut self) {
        self.speculation = None;
    }

    pub(crate) fn is_speculative(&self) -> bool {
        self.speculation.is_some()
    }

    /// Nothing happened: the run is as it was before the updates came.
    pub(crate) fn forget_speculation(&mut self) {
        if let Some((next_event, time)) = self.speculation.take() {
            self.next_event = next_event;
            self.last_event_time = time;
            self.task = workflow_task::State::Idle;
            self.unseen.clear();
            self.unwritten.clear();
        }
    }

    pub(super) fn change_child(&mut self, event: &ChildEvent) -> Result<(), Corrupt> {
        let seq = event.seq();
        match event {
            ChildEvent::Initiated(initiated) => {
                self.used.child = self.used.child.max(seq);
                self.children.insert(seq, Child::new(initiated.clone()));
                Ok(())
            }
            ChildEvent::Started { .. } => {
                self.child_mut(seq)?.state = child::State::Started;
                Ok(())
            }
            ChildEvent::StartFailed { .. }
            | ChildEvent::Completed { .. }
            | ChildEvent::Failed { .. }
            | ChildEvent::Canceled { .. }
            | ChildEvent::TimedOut { .. }
            | ChildEvent::Terminated { .. } => match self.children.remove(&seq) {
                Some(_) => Ok(()),
                None => Err(out_of_place("child", "there is no such child")),
            },
        }
    }

    /// What arrived about a child while workflow code runs.
    pub(super) fn buffered_child(&mut self, event: &ChildEvent) -> Result<(), Corrupt> {
        let state = match event {
            ChildEvent::Initiated(_) => {
                return Err(out_of_place("child", "only stimuli are buffered"));
            }
            ChildEvent::Started { .. } => child::State::Started,
            ChildEvent::StartFailed { .. }
            | ChildEvent::Completed { .. }
            | ChildEvent::Failed { .. }
            | ChildEvent::Canceled { .. }
            | ChildEvent::TimedOut { .. }
            | ChildEvent::Terminated { .. } => child::State::Ended,
        };
        self.child_mut(event.seq())?.state = state;
        Ok(())
    }

    pub(super) fn change_external(&mut self, event: &ExternalEvent) -> Result<(), Corrupt> {
        match event {
            ExternalEvent::CancelInitiated(request) => {
                match request.of {
                    CancelOf::Child(seq) => self.child_mut(seq)?.is_cancel_requested = true,
                    CancelOf::External(seq) => self.used.cancel = self.used.cancel.max(seq),
                }
                self.cancels.insert(request.of, request.clone());
                Ok(())
            }
            ExternalEvent::CancelFailed { of, .. } | ExternalEvent::CancelDelivered { of } => {
                // One that arrived while code ran was taken out when it was buffered.
                self.cancels.remove(of);
                Ok(())
            }
            ExternalEvent::SignalInitiated(signal) => {
                self.used.signal = self.used.signal.max(signal.seq);
                self.signals.insert(signal.seq, signal.clone());
                Ok(())
            }
            ExternalEvent::SignalFailed { seq, .. } | ExternalEvent::SignalDelivered { seq } => {
                self.signals.remove(seq);
                Ok(())
            }
        }
    }

    pub(super) fn buffered_external(&mut self, event: &ExternalEvent) -> Result<(), Corrupt> {
        match event {
            ExternalEvent::CancelInitiated(_) | ExternalEvent::SignalInitiated(_) => {
                Err(out_of_place("external", "only stimuli are buffered"))
            }
            ExternalEvent::CancelFailed { .. }
            | ExternalEvent::CancelDelivered { .. }
            | ExternalEvent::SignalFailed { .. }
            | ExternalEvent::SignalDelivered { .. } => self.change_external(event),
        }
    }

    pub(super) fn change_update(
        &mut self,
        event: &UpdateEvent,
        event_id: EventId,
    ) -> Result<(), Corrupt> {
        match event {
            UpdateEvent::Admitted(request) => {
                if let Some(unwritten) = self.unwritten.remove(&request.id) {
                    self.unseen.retain(|job| !is_update(job, &request.id));
                    if self.slice.is_some() {
                        self.seen_behind
                            .insert(request.id.clone(), unwritten.behind);
                    }
                }
                self.unseen.push(Job::Update(Box::new(UpdateJob {
                    request: (**request).clone(),
                    run_validator: true,
                })));
                let behind = event_id;
                self.set_update(request, State::Admitted { behind });
                Ok(())
            }
            UpdateEvent::Accepted(accepted) => {
                if let Some(request) = &accepted.request {
                    self.set_update(request, State::Accepted);
                    return Ok(());
                }
                self.update_mut(&accepted.id)?.state = State::Accepted;
                Ok(())
            }
            UpdateEvent::Completed { id, outcome } => {
                self.update_mut(id)?.state = State::Completed(outcome.clone());
                self.open_updates.remove(id);
                Ok(())
            }
        }
    }

    /// An update that arrived while workflow code runs: known, and given to the next task.
    pub(super) fn buffered_update(&mut self, event: &UpdateEvent) -> Result<(), Corrupt> {
        let UpdateEvent::Admitted(request) = event else {
            return Err(out_of_place("update", "only stimuli are buffered"));
        };
        let behind = EventId(self.next_event.0 - 1);
        self.set_update(request, State::Admitted { behind });
        Ok(())
    }

    pub(super) fn reject_update(
        &mut self,
        id: &UpdateId,
        failure: &Failure,
    ) -> Result<(), Corrupt> {
        self.update_mut(id)?.state = State::Rejected(failure.clone());
        self.open_updates.remove(id);
        Ok(())
    }

    pub(super) fn note(&mut self, notes: &[String], unhandled_signals: u32, rest: Option<&Rest>) {
        self.notes.extend(notes.iter().cloned());
        let surplus = self.notes.len().saturating_sub(limits::NOTES);
        self.notes.drain(..surplus);
        self.unhandled_signals = unhandled_signals;
        self.rest = rest.cloned().map(Box::new);
    }

    fn set_update(&mut self, request: &UpdateRequest, state: State) {
        let name = request.name.clone();
        self.open_updates.insert(request.id.clone());
        self.updates
            .insert(request.id.clone(), Update { name, state });
    }

    fn child_mut(&mut self, seq: Seq) -> Result<&mut Child, Corrupt> {
        self.children
            .get_mut(&seq)
            .ok_or_else(|| out_of_place("child", "there is no such child"))
    }

    fn update_mut(&mut self, id: &UpdateId) -> Result<&mut Update, Corrupt> {
        self.updates
            .get_mut(id)
            .ok_or_else(|| out_of_place("update", "there is no such update"))
    }
}

fn is_update(job: &Job, id: &UpdateId) -> bool {
    crate::update::given_update(job).is_some_and(|update| update.request.id == *id)
}
