//! The state of the cluster, and the rules by which it changes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use outlast_model::Headers;
use outlast_model::event::TaskFailedCause;
use outlast_model::failure::RetryState;
use outlast_model::job::Resolution;
use outlast_model::task::{
    ActivityTask, AttemptKind, AttemptResult, AttemptToken, RunNo, StepTask,
};
use outlast_model::{
    Activation, Command, Incarnation, Job, Payload, QueueName, RunId, Seq, Timestamp,
};
use outlast_worker::handle::{
    BackendToken, CompleteError, Completion, PollError, PolledActivation, PolledActivity,
    PolledAttempt, PolledQuery, PolledWork, QueueOptions,
};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Opening;

/// The cluster.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) runs: BTreeMap<RunId, Run>,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) handles: BTreeMap<u64, HandleState>,
    pub(crate) openings: VecDeque<Opening>,
    pub(crate) poll_faults: VecDeque<PollError>,
    /// The next polls for activations panic.
    pub(crate) poll_panics: u32,
    pub(crate) complaints: Vec<String>,
    /// After this, work that nobody answered is handed out again.
    pub(crate) timeout: Duration,
    /// How often somebody tried to open a handle.
    pub(crate) opened: u64,
    /// Heartbeats, in their order.
    pub(crate) heartbeats: Vec<Payload>,
    /// Questions for a run, and the answers.
    pub(crate) questions: BTreeMap<RunId, Vec<PolledQuery>>,
    pub(crate) answers: Vec<(String, Result<Payload, outlast_model::Failure>)>,
    /// Answers to these runs wait until they are let go.
    pub(crate) held: BTreeMap<RunId, Arc<Notify>>,
    /// The next answers of attempts wait at these.
    pub(crate) answer_gates: VecDeque<Arc<Notify>>,
    /// So many answers of attempts are taken and forgotten.
    pub(crate) lost_answers: u32,
    /// The next handles that are told to end wait at these.
    pub(crate) final_gates: VecDeque<Arc<Notify>>,
    pub(crate) completing: u32,
    pub(crate) most_completing: u32,
    tokens: u64,
}

/// A run.
#[derive(Default)]
pub(crate) struct Run {
    pub(crate) queue: QueueText,
    pub(crate) done: Vec<(Vec<Job>, Vec<Command>)>,
    pub(crate) pending: Vec<Job>,
    pub(crate) result: Option<Payload>,
    pub(crate) failures: Vec<TaskFailedCause>,
    pub(super) lease: Option<(u64, Instant)>,
    pub(super) not_before: Option<Instant>,
}

/// The name of a queue.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(crate) struct QueueText(String);

impl From<&str> for QueueText {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<&QueueName> for QueueText {
    fn from(name: &QueueName) -> Self {
        Self(name.to_string())
    }
}

/// An activity or step, with all its attempts.
pub(crate) struct Attempt {
    run_id: RunId,
    seq: Seq,
    kind: AttemptKind,
    name: String,
    pub(crate) begun: u32,
    pub(crate) is_done: bool,
    /// Somebody wants it stopped.
    pub(crate) cancel: Option<outlast_model::task::StopReason>,
    lease: Option<(u64, BackendToken, Instant)>,
}

/// A handle, seen from the cluster.
pub(crate) struct HandleState {
    pub(crate) queue: QueueText,
    pub(crate) options: QueueOptions,
    /// Instances it has, and how many batches they have seen.
    pub(crate) cached: BTreeMap<RunId, usize>,
    out: BTreeMap<RunId, Out>,
    evict: BTreeSet<RunId>,
    pub(crate) is_stopping: bool,
    pub(crate) is_final: bool,
    pub(crate) is_broken: bool,
}

enum Out {
    Replay(usize),
    Live(usize),
    Evict,
    Ask,
}

impl World {
    pub(crate) fn open(&mut self, options: &QueueOptions) -> u64 {
        let queue = QueueText::from(&options.queue);
        let mut others = self.handles.values();
        if others.any(|handle| handle.queue == queue && !handle.is_stopping) {
            self.complaints.push("two handles serve one queue".into());
        }
        let number = self.handles.len() as u64 + 1;
        self.handles.insert(
            number,
            HandleState {
                queue,
                options: options.clone(),
                cached: BTreeMap::new(),
                out: BTreeMap::new(),
                evict: BTreeSet::new(),
                is_stopping: false,
                is_final: false,
                is_broken: false,
            },
        );
        number
    }

    /// When a lease ends next.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        let runs = self.runs.values();
        let leases = runs.flat_map(|run| [run.lease.map(|(_, until)| until), run.not_before]);
        let attempts = self.attempts.iter();
        let attempts = attempts.map(|attempt| attempt.lease.as_ref().map(|(_, _, until)| *until));
        leases
            .chain(attempts)
            .flatten()
            .filter(|at| *at > Instant::now())
            .min()
    }

    pub(crate) fn evict(&mut self, handle: u64, run_id: RunId) {
        if let Some(handle) = self.handles.get_mut(&handle)
            && handle.cached.contains_key(&run_id)
        {
            handle.evict.insert(run_id);
        }
    }

    /// What a poll for activations answers now, if anything.
    pub(crate) fn activation(
        &mut self,
        number: u64,
    ) -> Option<Result<PolledActivation, PollError>> {
        let handle = self.handles.get_mut(&number)?;
        if !handle.is_stopping {
            if self.poll_panics > 0 {
                self.poll_panics -= 1;
                panic!("the poll panics as told");
            }
            if let Some(error) = self.poll_faults.pop_front() {
                handle.is_broken = matches!(error, PollError::Fatal(_));
                return Some(Err(error));
            }
        }
        if handle.is_broken {
            return handle.is_stopping.then_some(Err(PollError::Shutdown));
        }
        if handle.is_stopping {
            handle.evict.extend(handle.cached.keys().copied());
        }
        let is_free = |run_id: &&RunId| !handle.out.contains_key(run_id);
        if let Some(run_id) = handle.evict.iter().find(is_free).copied() {
            handle.out.insert(run_id, Out::Evict);
            let reason = "as told".into();
            let work = PolledWork::Evict { reason };
            return Some(Ok(PolledActivation { run_id, work }));
        }
        if handle.is_stopping {
            let is_over = handle.out.is_empty();
            return is_over.then_some(Err(PollError::Shutdown));
        }
        let found = self.for_some_run(number);
        found.map(|(run_id, work)| Ok(PolledActivation { run_id, work }))
    }

    fn for_some_run(&mut self, number: u64) -> Option<(RunId, PolledWork)> {
        let now = Instant::now();
        let handle = self.handles.get_mut(&number)?;
        for (run_id, run) in &mut self.runs {
            if run.queue != handle.queue || handle.out.contains_key(run_id) {
                continue;
            }
            let position = handle.cached.get(run_id).copied();
            let is_asked = self.questions.contains_key(run_id);
            let is_mine = run
                .lease
                .is_some_and(|(holder, until)| holder == number && until > now);
            let is_free = run.lease.is_none_or(|(_, until)| until <= now)
                && run.not_before.is_none_or(|at| at <= now);
            let has_news = run.result.is_none() && !run.pending.is_empty();
            if !(is_mine || (is_free && (has_news || is_asked))) {
                continue;
            }
            run.lease = Some((number, now + self.timeout));
            let position = match position {
                Some(position) => position,
                None => {
                    handle.cached.insert(*run_id, 0);
                    0
                }
            };
            if let Some((jobs, _)) = run.done.get(position) {
                handle.out.insert(*run_id, Out::Replay(position));
                let work = PolledWork::Activate(activation(jobs.clone(), position, true));
                return Some((*run_id, work));
            }
            if has_news {
                handle.out.insert(*run_id, Out::Live(run.pending.len()));
                let jobs = run.pending.clone();
                return Some((
                    *run_id,
                    PolledWork::Activate(activation(jobs, position, false)),
                ));
            }
            run.lease = None;
            if let Some(questions) = self.questions.remove(run_id) {
                handle.out.insert(*run_id, Out::Ask);
                return Some((*run_id, PolledWork::Ask(questions)));
            }
        }
        None
    }

    /// An activation is answered.
    pub(crate) fn complete(
        &mut self,
        number: u64,
        run_id: RunId,
        completion: Completion,
    ) -> Result<(), CompleteError> {
        let gone = || CompleteError::Gone("as the cluster sees it".into());
        let handle = self.handles.get_mut(&number).ok_or_else(gone)?;
        if handle.is_final {
            return Err(gone());
        }
        let Some(out) = handle.out.remove(&run_id) else {
            let text = format!("{run_id}: {completion:?} answers nothing");
            self.complaints.push(text);
            return Err(gone());
        };
        let run = self.runs.get_mut(&run_id).ok_or_else(gone)?;
        match (out, completion) {
            (Out::Evict, Completion::Evicted) => {
                handle.cached.remove(&run_id);
                handle.evict.remove(&run_id);
                run.lease = run.lease.filter(|(holder, _)| *holder != number);
            }
            (Out::Ask, Completion::Queried(answers)) => self.answers.extend(answers),
            (Out::Replay(position), Completion::Commands(commands)) => {
                let recorded = run.done.get(position).map(|(_, commands)| commands);
                if recorded != Some(&commands) {
                    let text = format!("{run_id}: {position}: {commands:?}, not {recorded:?}");
                    self.complaints.push(text);
                }
                handle.cached.insert(run_id, position + 1);
            }
            (Out::Live(jobs), Completion::Commands(commands)) => {
                let is_mine = run
                    .lease
                    .is_some_and(|(holder, until)| holder == number && until > Instant::now());
                if !is_mine {
                    handle.evict.insert(run_id);
                    return Err(gone());
                }
                run.lease = None;
                let seen: Vec<Job> = run.pending.drain(..jobs).collect();
                run.done.push((seen, commands.clone()));
                handle.cached.insert(run_id, run.done.len());
                self.follow(number, run_id, commands);
            }
            (_, Completion::Failed { cause, .. }) => {
                handle.evict.insert(run_id);
                run.failures.push(cause);
                run.lease = None;
                run.not_before = Some(Instant::now() + Duration::from_millis(100));
            }
            (_, completion) => {
                let text = format!("{run_id}: {completion:?} is no answer to what was sent");
                self.complaints.push(text);
            }
        }
        Ok(())
    }

    /// What commands call for.
    fn follow(&mut self, handle: u64, run_id: RunId, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::ScheduleActivity(command) => self.attempts.push(Attempt {
                    run_id,
                    seq: command.seq,
                    kind: AttemptKind::Activity,
                    name: command.activity_type.as_str().into(),
                    begun: 0,
                    is_done: false,
                    cancel: None,
                    lease: None,
                }),
                Command::ScheduleStep { seq, name, .. } => self.attempts.push(Attempt {
                    run_id,
                    seq,
                    kind: AttemptKind::Step,
                    name: name.as_str().into(),
                    begun: 0,
                    is_done: false,
                    cancel: None,
                    lease: None,
                }),
                Command::StartTimer { seq, .. } => self.tell(run_id, Job::FireTimer { seq }),
                Command::CompleteWorkflow { result } => {
                    if let Some(run) = self.runs.get_mut(&run_id)
                        && run.result.replace(result).is_some()
                    {
                        self.complaints.push(format!("{run_id} ended twice"));
                    }
                    self.evict(handle, run_id);
                }
                other @ (Command::RequestCancelActivity { .. }
                | Command::CancelTimer { .. }
                | Command::CancelStep { .. }
                | Command::StartChild(_)
                | Command::CancelChild { .. }
                | Command::SignalExternal(_)
                | Command::CancelExternal(_)
                | Command::SetPatch { .. }
                | Command::AcceptUpdate { .. }
                | Command::RejectUpdate { .. }
                | Command::CompleteUpdate { .. }
                | Command::ContinueAsNew(_)
                | Command::FailWorkflow { .. }
                | Command::CancelWorkflow) => {
                    let text = format!("{run_id}: {other:?} is not known here");
                    self.complaints.push(text);
                }
            }
        }
    }

    pub(crate) fn tell(&mut self, run_id: RunId, job: Job) {
        if let Some(run) = self.runs.get_mut(&run_id) {
            run.pending.push(job);
        }
    }

    /// What a poll for attempts answers now, if anything.
    pub(crate) fn attempt(&mut self, number: u64) -> Option<Result<PolledActivity, PollError>> {
        let now = Instant::now();
        let handle = self.handles.get(&number)?;
        if handle.is_stopping {
            return Some(Err(PollError::Shutdown));
        }
        if handle.is_broken {
            return None;
        }
        for attempt in &mut self.attempts {
            if let (Some((holder, token, _)), Some(reason)) = (&attempt.lease, attempt.cancel)
                && *holder == number
            {
                attempt.cancel = None;
                return Some(Ok(PolledActivity::Cancel(token.clone(), reason)));
            }
            let is_free = attempt
                .lease
                .as_ref()
                .is_none_or(|(_, _, until)| *until <= now);
            let is_of_queue = self
                .runs
                .get(&attempt.run_id)
                .is_some_and(|run| run.queue == handle.queue);
            if attempt.is_done || !is_free || !is_of_queue {
                continue;
            }
            self.tokens += 1;
            let token = BackendToken(self.tokens.to_be_bytes().to_vec());
            attempt.begun += 1;
            attempt.lease = Some((number, token.clone(), now + self.timeout));
            return Some(Ok(PolledActivity::Start(token, attempt.task())));
        }
        None
    }

    /// An attempt is answered.
    pub(crate) fn ended(
        &mut self,
        number: u64,
        token: &BackendToken,
        result: AttemptResult,
    ) -> Result<(), CompleteError> {
        let gone = || CompleteError::Gone("as the cluster sees it".into());
        if self
            .handles
            .get(&number)
            .is_none_or(|handle| handle.is_final)
        {
            return Err(gone());
        }
        let mut attempts = self.attempts.iter_mut();
        let attempt = attempts
            .find(|attempt| attempt.lease.as_ref().is_some_and(|(_, it, _)| it == token))
            .ok_or_else(gone)?;
        attempt.lease = None;
        let resolution = match result {
            AttemptResult::Completed(result) => Resolution::Completed(result),
            AttemptResult::Canceled(details) => Resolution::Canceled(details),
            AttemptResult::HandedBack => return Ok(()),
            // Nobody answers from outside here.
            AttemptResult::Later => {
                attempt.is_done = true;
                return Ok(());
            }
            AttemptResult::Failed(failure) => {
                Resolution::Failed(failure, RetryState::NonRetryableFailure)
            }
        };
        attempt.is_done = true;
        let (run_id, seq) = (attempt.run_id, attempt.seq);
        let job = match attempt.kind {
            AttemptKind::Activity => Job::ResolveActivity { seq, resolution },
            AttemptKind::Step => Job::ResolveStep { seq, resolution },
        };
        self.tell(run_id, job);
        Ok(())
    }
}

impl Attempt {
    fn task(&self) -> PolledAttempt {
        let token = AttemptToken {
            shard: 0,
            run: RunNo(0),
            kind: self.kind,
            seq: self.seq,
            attempt: outlast_model::Attempt(self.begun),
            incarnation: Incarnation::default(),
        };
        match self.kind {
            AttemptKind::Activity => PolledAttempt::Activity(Box::new(ActivityTask {
                token,
                run_id: self.run_id,
                workflow_id: format!("w-{}", self.run_id).as_str().into(),
                activity_type: self.name.as_str().into(),
                queue: "of the port".into(),
                input: Payload::null(),
                heartbeat_details: None,
                scheduled: Timestamp::default(),
                start_to_close: None,
                heartbeat: None,
                headers: Headers::default(),
            })),
            AttemptKind::Step => PolledAttempt::Step(StepTask {
                token,
                run_id: self.run_id,
                name: self.name.as_str().into(),
                queue: "of the port".into(),
            }),
        }
    }
}

fn activation(jobs: Vec<Job>, position: usize, is_replaying: bool) -> Activation {
    Activation {
        now: Timestamp::default(),
        is_replaying,
        history_events: position as u64 * 5 + 3,
        suggest_continue_as_new: false,
        jobs,
    }
}
