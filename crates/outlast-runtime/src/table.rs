//! Operations of an instance: made, cancelled, filled, and their commands sent.
//!
//! The table holds open operations only, so that a wake-up costs the same at the beginning and
//! at the end of a long history. An outcome whose operation is not in the table is late if its
//! number was given out, and a contradiction if it was not.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use outlast_model::command::ScheduleActivity;
use outlast_model::event::Site;
use outlast_model::{
    ActivityOptions, Command, Job, Resolution, Seq, Shared as Kept, SignalName, StepName,
};

use crate::cell::{Key, Kind, OperationCell, State, Subject, Verdict, Wish};
use crate::context::Context;
use crate::failure::TaskFailure;
use crate::guard::Reader;
use crate::intercept::{ActivityCall, Call, StepCall};
use crate::operation::Operation;
use crate::program::StepCode;
use crate::scope::{Cancel, Node};
use crate::shared::{Commands, Place, Shared};
use crate::slab;

/// What leaves the instance at the end of the slice.
#[derive(Default)]
pub(crate) struct Outgoing {
    commands: Vec<Option<Entry>>,
    /// Made in a cancelled scope; cut off when polled or when the poll ends, unless shielded.
    doomed: Vec<Rc<OperationCell>>,
    /// Dropped in this poll, unresolved.
    dropped: Vec<Rc<OperationCell>>,
    /// Dropped in main's last poll, sent long before.
    parting: Vec<(Rc<OperationCell>, Wish)>,
    /// Try-cancels whose follow-up activation is due.
    follow_ups: Vec<Key>,
}

impl Outgoing {
    /// Whether nothing leaves.
    pub(crate) fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.dropped.is_empty() && self.follow_ups.is_empty()
    }
}

struct Entry {
    command: Command,
    cell: Option<Rc<OperationCell>>,
}

/// The last number given out of each kind.
#[derive(Default)]
pub(crate) struct Sequences([u32; Kind::COUNT]);

impl Sequences {
    fn last(&mut self, kind: Kind) -> &mut u32 {
        let [activity, timer, step, child, signal, cancel, promise, recv] = &mut self.0;
        match kind {
            Kind::Activity => activity,
            Kind::Timer => timer,
            Kind::Step => step,
            Kind::Child => child,
            Kind::ExternalSignal => signal,
            Kind::ExternalCancel => cancel,
            Kind::Promise => promise,
            Kind::Recv => recv,
        }
    }

    fn next(&mut self, kind: Kind) -> Seq {
        let last = self.last(kind);
        *last += 1;
        Seq(*last)
    }
}

/// Made: by code.
impl Shared {
    /// The number that the next operation of this kind will have.
    pub(crate) fn next_seq(&self, kind: Kind) -> Seq {
        Seq(*self.sequences.borrow_mut().last(kind) + 1)
    }

    pub(crate) fn schedule_activity(
        self: &Rc<Self>,
        mut call: ActivityCall,
        site: Site,
    ) -> Operation {
        self.intercept(Call::Activity(&mut call));
        let ActivityCall {
            activity_type,
            input,
            options,
            headers,
        } = call;
        let subject = Subject::Activity {
            name: activity_type.clone(),
            cancel: Cell::new(options.cancel),
        };
        let options = self.same_options(options);
        self.schedule(Kind::Activity, subject, site, |seq, site| {
            let command = ScheduleActivity {
                seq,
                activity_type,
                input,
                options,
                site,
                headers,
            };
            Some(Command::ScheduleActivity(Box::new(command)))
        })
    }

    /// Options of one activity are mostly those of the one before it: then they are kept once.
    fn same_options(&self, options: ActivityOptions) -> Kept<ActivityOptions> {
        let mut last = self.last_options.borrow_mut();
        match &*last {
            Some(same) if **same == options => same.clone(),
            Some(_) | None => last.insert(options.into()).clone(),
        }
    }

    pub(crate) fn schedule_timer(
        self: &Rc<Self>,
        mut delay: std::time::Duration,
        site: Site,
    ) -> Operation {
        self.intercept(Call::Timer(&mut delay));
        self.schedule(Kind::Timer, Subject::Timer, site, |seq, site| {
            Some(Command::StartTimer { seq, delay, site })
        })
    }

    pub(crate) fn schedule_step(self: &Rc<Self>, mut call: StepCall, site: Site) -> Operation {
        self.intercept(Call::Step(&mut call));
        let StepCall {
            name,
            options,
            code,
            ..
        } = call;
        let subject = Subject::Step {
            name: name.clone(),
            code,
        };
        self.schedule(Kind::Step, subject, site, |seq, site| {
            Some(Command::ScheduleStep {
                seq,
                name,
                options: Box::new(options),
                site,
            })
        })
    }

    /// # Panics
    /// If signals of this name go to a handler.
    pub(crate) fn schedule_recv(self: &Rc<Self>, name: SignalName, site: Site) -> Operation {
        assert!(
            !self.mailbox.borrow().handles(&name),
            "the recv of signal `{name}` at {site} would wait for ever, since a handler takes every \
             signal of this name: keep one of the two, or wait with `ctx.wait_for` for what the \
             handler writes"
        );
        let subject = Subject::Recv { name: name.clone() };
        let operation = self.schedule(Kind::Recv, subject, site, |_, _| None);
        if self.commands.get() == Commands::On {
            self.mailbox
                .borrow_mut()
                .wait(name, operation.kind_and_seq().1);
        }
        operation
    }

    /// # Panics
    /// If code waits for a signal of this name.
    pub(crate) fn assert_not_received(&self, name: &SignalName, place: Place) {
        let (mailbox, open) = (self.mailbox.borrow(), self.open.borrow());
        let kind = Kind::Recv;
        let mut waiting = mailbox.waiting(name);
        let cell = waiting.find_map(|seq| open.get(Key { kind, seq }).filter(|c| c.is_awaited()));
        if let Some(cell) = cell {
            panic!(
                "the handler of signal `{name}` at {place} would take what the recv at {} waits for, \
                 which would then wait for ever: keep one of the two",
                cell.site
            );
        }
    }

    pub(crate) fn schedule(
        self: &Rc<Self>,
        kind: Kind,
        subject: Subject,
        site: Site,
        make: impl FnOnce(Seq, Site) -> Option<Command>,
    ) -> Operation {
        let seq = self.sequences.borrow_mut().next(kind);
        let command = make(seq, site.clone());
        let cell = Rc::new(OperationCell {
            key: Key { kind, seq },
            site,
            subject,
            born: self.poll.get(),
            state: RefCell::new(State::Sent),
            scope: RefCell::new(Rc::clone(&self.scope.borrow())),
            waker: RefCell::new(None),
            awaited_by: Cell::new(None),
            undo: RefCell::new(None),
            is_cancelled: Cell::new(false),
            is_owned: Cell::new(true),
        });
        match self.commands.get() {
            Commands::On => self.record(command, &cell),
            Commands::Late => {
                let late = command.as_ref().map_or("recv", Command::name);
                let site = &cell.site;
                self.warn_live(|| format!("{late} at {site} comes after the end of the run"));
                *cell.state.borrow_mut() = State::Resolved(Resolution::Canceled(None));
            }
            Commands::Off => {
                *cell.state.borrow_mut() = State::Resolved(Resolution::Canceled(None));
            }
        }
        Operation::new(Rc::clone(self), cell)
    }

    fn record(&self, command: Option<Command>, cell: &Rc<OperationCell>) {
        let scope = cell.scope.borrow();
        scope.add(cell.key);
        self.open.borrow_mut().insert(cell.key, Rc::clone(cell));
        let mut outgoing = self.outgoing.borrow_mut();
        if scope.cuts_operations() {
            outgoing.doomed.push(Rc::clone(cell));
        }
        if let Some(command) = command {
            *cell.state.borrow_mut() = State::Unsent {
                at: outgoing.commands.len(),
            };
            outgoing.commands.push(Some(Entry {
                command,
                cell: Some(Rc::clone(cell)),
            }));
        }
    }

    /// Answers something: nobody waits for what becomes of the answer.
    pub(crate) fn answer(&self, command: Command) {
        if self.commands.get() == Commands::On {
            let mut outgoing = self.outgoing.borrow_mut();
            outgoing.commands.push(Some(Entry {
                command,
                cell: None,
            }));
        }
    }

    /// Changes a command that was not sent yet; false if it is no longer there.
    pub(crate) fn edit(&self, cell: &OperationCell, change: impl FnOnce(&mut Command)) -> bool {
        let State::Unsent { at } = *cell.state.borrow() else {
            return false;
        };
        // Taken out while user code runs: it may make commands of its own.
        let entry = self
            .outgoing
            .borrow_mut()
            .commands
            .get_mut(at)
            .and_then(Option::take);
        let Some(mut entry) = entry else { return false };
        change(&mut entry.command);
        self.outgoing.borrow_mut().commands[at] = Some(entry);
        true
    }
}

/// Cancelled: by code, by a scope, by being dropped.
impl Shared {
    /// Cancels an operation in its own mode.
    pub(crate) fn cancel(&self, cell: &Rc<OperationCell>) {
        self.carry_out(cell, Wish::Asked(cell.mode()));
    }

    /// Cancels a scope: all operations it reaches, in the order of kind and number, then waits.
    pub(crate) fn cancel_scope(&self, scope: &Rc<Node>) {
        if self.commands.get() != Commands::On {
            return;
        }
        let reached = scope.cancel(Cancel::Cut);
        for key in &reached.operations {
            self.cancel_open(*key);
        }
        self.end_waits(reached);
    }

    fn cancel_open(&self, key: Key) {
        let cell = self.open.borrow().get(key).cloned();
        if let Some(cell) = cell {
            self.cancel(&cell);
        }
    }

    pub(crate) fn carry_out(&self, cell: &Rc<OperationCell>, wish: Wish) {
        if self.commands.get() != Commands::On {
            return;
        }
        let verdict = cell.state.borrow().cancel(cell.key.kind, wish);
        if verdict != Verdict::Nothing {
            cell.is_cancelled.set(true);
        }
        match verdict {
            Verdict::Nothing => {}
            Verdict::Withdraw => {
                self.withdraw(cell);
                cell.undo.borrow_mut().take();
                self.fill(cell, Resolution::Canceled(None));
            }
            Verdict::Request => self.request(cell),
            // Its backend waits for the outcome, so that it can be undone: no follow-up comes.
            Verdict::RequestThenFollowUp if self.stays_registered(cell) => self.leave(cell, true),
            Verdict::RequestThenFollowUp => {
                self.request(cell);
                self.outgoing.borrow_mut().follow_ups.push(cell.key);
            }
            Verdict::RequestAndFill => self.leave(cell, true),
            Verdict::Fill => self.leave(cell, false),
        }
    }

    /// Its future resolves now; the operation is asked to stop, or not.
    fn leave(&self, cell: &OperationCell, is_told: bool) {
        if is_told {
            self.request(cell);
        }
        self.part_from(cell, is_told);
    }

    /// Its future resolves without its outcome. What can be undone stays registered for that.
    pub(crate) fn part_from(&self, cell: &OperationCell, is_told: bool) {
        if self.stays_registered(cell) {
            self.register(cell, is_told);
        }
        cell.undo.borrow_mut().take();
        self.fill(cell, Resolution::Canceled(None));
    }

    fn withdraw(&self, cell: &OperationCell) {
        if let State::Unsent { at } = *cell.state.borrow() {
            self.outgoing.borrow_mut().commands[at] = None;
        }
    }

    fn request(&self, cell: &OperationCell) {
        if let Some(command) = cell.cancel_command() {
            self.outgoing.borrow_mut().commands.push(Some(Entry {
                command,
                cell: None,
            }));
        }
        *cell.state.borrow_mut() = State::Canceling;
    }

    /// The future of an operation was dropped.
    pub(crate) fn abandon(&self, cell: &Rc<OperationCell>) {
        cell.is_owned.set(false);
        cell.waker.borrow_mut().take();
        // What only reads makes no command, not even so: the operation goes on as if detached.
        let is_ignored = match self.reader.get() {
            Some(Reader::Query | Reader::Validator) => true,
            Some(Reader::Condition) | None => self.commands.get() != Commands::On,
        };
        if is_ignored || cell.state.borrow().is_filled() {
            return;
        }
        self.outgoing.borrow_mut().dropped.push(Rc::clone(cell));
    }

    /// Whether nothing can end a wait that begins now: the run is over, or left memory, and its
    /// destructors run.
    ///
    /// # Panics
    /// Outside of the code of this run: in another one, or where no workflow runs. While the
    /// thread unwinds it does not, since that would end the process.
    pub(crate) fn is_out_of_reach(&self, what: impl FnOnce() -> String) -> bool {
        if slab::is_entered(self.address) {
            return self.commands.get() != Commands::On;
        }
        assert!(
            std::thread::panicking(),
            "{} was polled outside of the code of its own workflow, where nothing can ever wake it: \
             await it in the workflow that made it, and do not keep it",
            what()
        );
        true
    }

    /// Cuts off what was made in a cancelled scope, as soon as somebody waits for it.
    pub(crate) fn cut_off_if_doomed(&self, cell: &Rc<OperationCell>) {
        let is_doomed = matches!(*cell.state.borrow(), State::Unsent { .. } | State::Sent)
            && cell.scope.borrow().cuts_operations();
        if is_doomed {
            self.cancel(cell);
        }
    }

    /// The poll of a task has ended: what it dropped is cancelled, in the order of kind and
    /// number, whatever the order of the drops was.
    pub(crate) fn end_poll(&self) {
        let doomed = std::mem::take(&mut self.outgoing.borrow_mut().doomed);
        for cell in doomed {
            self.cut_off_if_doomed(&cell);
        }
        for (cell, wish) in self.take_dropped() {
            self.carry_out(&cell, wish);
        }
    }

    /// The last poll of main has ended: what it dropped and never sent is taken back. For the
    /// rest no cancel is needed if the run closes now: its end stops everything.
    pub(crate) fn end_last_poll(&self) {
        for (cell, wish) in self.take_dropped() {
            if matches!(*cell.state.borrow(), State::Unsent { .. }) {
                self.carry_out(&cell, wish);
            } else {
                self.outgoing.borrow_mut().parting.push((cell, wish));
            }
        }
    }

    /// Main is over, the run is not: what main dropped at its end is cancelled after all.
    pub(crate) fn cancel_parting(&self) {
        let parting = std::mem::take(&mut self.outgoing.borrow_mut().parting);
        for (cell, wish) in parting {
            self.carry_out(&cell, wish);
        }
    }

    /// What was dropped, and what hangs on dropped handles, in the order of kind and number.
    fn take_dropped(&self) -> Vec<(Rc<OperationCell>, Wish)> {
        let dropped = std::mem::take(&mut self.outgoing.borrow_mut().dropped);
        let mut all: Vec<_> = dropped
            .into_iter()
            .map(|cell| (cell, Wish::Dropped))
            .collect();
        let reached = self.cancel_dropped_scopes();
        let open = self.open.borrow();
        let reached_open = reached.operations.iter().filter_map(|key| open.get(*key));
        all.extend(reached_open.map(|cell| (Rc::clone(cell), Wish::Asked(cell.mode()))));
        drop(open);
        self.end_waits(reached);
        // Stable: a drop comes before the cancel of the scope around it, which it makes void.
        all.sort_by_key(|(cell, _)| cell.key);
        all
    }
}

/// Filled: by jobs.
impl Shared {
    /// A job says how an operation ended.
    pub(crate) fn resolve(&self, key: Key, resolution: Resolution) -> Result<(), TaskFailure> {
        match self.open_cell(key)? {
            Some(cell) => self.fill(&cell, resolution),
            None => self.registered_ended(key, &resolution),
        }
        Ok(())
    }

    /// The operation a job is about, unless it has ended.
    pub(crate) fn open_cell(&self, key: Key) -> Result<Option<Rc<OperationCell>>, TaskFailure> {
        let cell = self.open.borrow().get(key).cloned();
        let last = *self.sequences.borrow_mut().last(key.kind);
        if cell.is_none() && key.seq.0 > last {
            return Err(TaskFailure::unknown_operation(key, last));
        }
        Ok(cell)
    }

    /// Writes the cell, once.
    pub(crate) fn fill(&self, cell: &OperationCell, resolution: Resolution) {
        self.forget(cell);
        if let Subject::Child(child) = &cell.subject {
            child.never_starts(&resolution);
        }
        self.remember_undo(cell, &resolution);
        let state = if cell.is_owned.get() {
            State::Resolved(resolution)
        } else {
            State::Taken
        };
        *cell.state.borrow_mut() = state;
        let waker = cell.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes the oldest signal a `recv` waits for, if there is one.
    pub(crate) fn receive(&self, cell: &OperationCell) -> Option<Resolution> {
        let Subject::Recv { name } = &cell.subject else {
            return None;
        };
        let mut signal = self.mailbox.borrow_mut().take(name)?;
        if let Some(interceptors) = self.interceptors() {
            interceptors.received(Context::at(self.address), &mut signal);
        }
        self.forget(cell);
        let received = Resolution::Completed(signal.input);
        self.remember_undo(cell, &received);
        *cell.state.borrow_mut() = State::Taken;
        Some(received)
    }

    fn forget(&self, cell: &OperationCell) {
        self.open.borrow_mut().remove(cell.key);
        cell.scope.borrow().remove(cell.key);
        match &cell.subject {
            Subject::Recv { name } => self.mailbox.borrow_mut().leave(name, cell.key.seq),
            Subject::Promise { id } => {
                let mut mailbox = self.mailbox.borrow_mut();
                mailbox.promises.leave(id, cell.key.seq);
            }
            Subject::Activity { .. }
            | Subject::Timer
            | Subject::Step { .. }
            | Subject::Child(_)
            | Subject::ExternalSignal { .. }
            | Subject::ExternalCancel { .. } => {}
        }
    }

    /// Numbers of the steps that have no outcome yet.
    pub(crate) fn open_steps(&self) -> Vec<Seq> {
        let first = Key {
            kind: Kind::Step,
            seq: Seq(0),
        };
        self.open
            .borrow()
            .since(first)
            .take_while(|(key, _)| key.kind == Kind::Step)
            .map(|(key, _)| key.seq)
            .collect()
    }

    /// An open step's name, call and code.
    pub(crate) fn open_step(&self, seq: Seq) -> Option<(StepName, Site, StepCode)> {
        let cell = self
            .open
            .borrow()
            .get(Key {
                kind: Kind::Step,
                seq,
            })
            .cloned()?;
        match &cell.subject {
            Subject::Step { name, code } => {
                Some((name.clone(), cell.site.clone(), StepCode::clone(code)))
            }
            Subject::Activity { .. }
            | Subject::Timer
            | Subject::Child(_)
            | Subject::ExternalSignal { .. }
            | Subject::ExternalCancel { .. }
            | Subject::Promise { .. }
            | Subject::Recv { .. } => None,
        }
    }
}

/// Sent: at the end of a slice.
impl Shared {
    /// All commands in the order they were made.
    pub(crate) fn flush(&self) -> Vec<Command> {
        let made = std::mem::take(&mut self.outgoing.borrow_mut().commands);
        let mut commands = Vec::with_capacity(made.len());
        for Entry { mut command, cell } in made.into_iter().flatten() {
            if let Some(cell) = cell {
                self.hand_out(&cell, &mut command);
                *cell.state.borrow_mut() = State::Sent;
            }
            commands.push(command);
        }
        commands
    }

    /// Jobs that the commands of the last slice call for, in the same workflow task.
    pub(crate) fn follow_ups(&self) -> Vec<Job> {
        let keys = std::mem::take(&mut self.outgoing.borrow_mut().follow_ups);
        keys.into_iter().filter_map(resolved_cancelled).collect()
    }
}

/// The job that tells whoever waits that an operation was cancelled. Timers and what is local
/// resolve where they are cancelled, and what is on its way cannot be called back.
pub(crate) fn resolved_cancelled(key: Key) -> Option<Job> {
    let (seq, resolution) = (key.seq, Resolution::Canceled(None));
    match key.kind {
        Kind::Activity => Some(Job::ResolveActivity { seq, resolution }),
        Kind::Step => Some(Job::ResolveStep { seq, resolution }),
        Kind::Child => Some(Job::ResolveChild { seq, resolution }),
        Kind::Timer | Kind::ExternalSignal | Kind::ExternalCancel | Kind::Promise | Kind::Recv => {
            None
        }
    }
}
