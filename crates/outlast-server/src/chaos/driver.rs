//! The driver: clients that do not give up, and the hand that kills.
//!
//! Requests that a dead worker did not answer are sent again to the next one with the same
//! number. New runs begin in step with the kills, so that every worker has something to do.
//!
//! At the end the driver is the operator as well: a run whose slice met five kills in a row was
//! set aside, as it should be, and is told to try again. How many there were is in the report.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use outlast_model::event::TaskFailedCause;
use outlast_model::id::WorkflowId;
use outlast_model::view::RunRef;
use outlast_service::inspect::Inspector;

use super::fleet::{Heard, Ledger, Worker};
use super::moment::{Moment, Moments};
use super::record::{Answer, Call, ChildNo, Record, ReqNo, Request, Said};
use super::script::{Script, State};
use super::trip::leg_of;
use super::{Plan, Room};
use crate::stop::Stop;
use crate::{clock, out};

/// Runs that a worker has open at a time, at most.
const OPEN: u64 = 16;
/// How long a point may take to be reached before the kill falls anywhere.
const POINT: Duration = Duration::from_millis(250);
/// How long nothing may move at the end before what is left counts as stuck.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same when a planted fault makes it certain that something will be.
const PLANTED_PATIENCE: Duration = Duration::from_secs(3);
/// How long a worker says nothing before the operator looks for runs that were set aside.
const QUIET: Duration = Duration::from_secs(1);
/// How often a live line is drawn.
const TELL: Duration = Duration::from_millis(200);

/// How often a worker may die on its own before the run is given up.
const CRASHES: u64 = 5;

/// What the driver knows at the end.
#[derive(Debug, Default)]
pub(crate) struct Story {
    pub(crate) kills: u64,
    pub(crate) points: usize,
    pub(crate) unreached: Vec<&'static str>,
    /// From the death of a worker to the first answer of the next.
    pub(crate) recoveries: Vec<Duration>,
    /// Workers that died on their own.
    pub(crate) crashes: u64,
    /// Runs that were set aside and told to try again.
    pub(crate) set_aside: u64,
    /// Requests that nobody answered in the end.
    pub(crate) unanswered: usize,
    pub(crate) took: Duration,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Driver<'a> {
    plan: &'a Plan,
    room: &'a Room,
    seed: u64,
    ledger: Ledger,
    moments: Moments,
    scripts: BTreeMap<String, Script>,
    queue: VecDeque<Request>,
    in_flight: BTreeMap<ReqNo, Request>,
    last_req: u64,
    last_recorded: u64,
    last_child: u64,
    begun: u64,
    over: u64,
    death: Option<Instant>,
    told: Instant,
    begin: Instant,
    story: Story,
}

/// Where a worker was when its time had come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Whence {
    Point(String),
    Anywhere,
    /// It died before it was killed.
    Crashed,
}

impl<'a> Driver<'a> {
    pub(crate) fn start(plan: &'a Plan, room: &'a Room, seed: u64) -> Result<Self, Stop> {
        let now = clock::now();
        Ok(Self {
            plan,
            room,
            seed,
            ledger: Ledger::start(room)?,
            moments: Moments::new(seed),
            scripts: BTreeMap::new(),
            queue: VecDeque::new(),
            in_flight: BTreeMap::new(),
            last_req: 0,
            last_recorded: 0,
            last_child: 0,
            begun: 0,
            over: 0,
            death: None,
            told: now,
            begin: now,
            story: Story::default(),
        })
    }

    /// Kills as often as asked for, then lets everything come to its end.
    pub(crate) fn drive(&mut self) -> Result<(), Stop> {
        let (_, kills) = self.plan.size();
        while self.story.kills < kills {
            let moment = self.moments.next();
            self.one_life(&moment)?;
            if self.story.crashes > CRASHES {
                let what = "the worker dies on its own, again and again";
                return Err(Stop::Failure(format!(
                    "{what}; files kept in {}",
                    self.room.show()
                )));
            }
        }
        let quiet = Moment::Quiet(QUIET);
        let mut worker = self.spawn(&quiet)?;
        self.live(&mut worker, &quiet)?;
        self.let_go_on()?;
        self.live(&mut worker, &Moment::Quiet(self.patience()))?;
        if !worker.stop(&self.ledger.pen)? {
            self.story.crashes += 1;
        }
        self.bury(&worker)
    }

    /// What there is to tell.
    pub(crate) fn finish(mut self) -> Result<Story, Stop> {
        if out::is_terminal() {
            out::clear();
        }
        self.ledger.stop()?;
        self.story.points = self.moments.reached();
        self.story.unreached = self.moments.unreached();
        let is_open = |script: &&Script| script.state != State::Over;
        self.story.unanswered = self.scripts.values().filter(is_open).count();
        self.story.took = self.begin.elapsed();
        Ok(self.story)
    }

    fn one_life(&mut self, moment: &Moment) -> Result<(), Stop> {
        let mut worker = self.spawn(moment)?;
        let whence = self.live(&mut worker, moment)?;
        let place = match (&whence, moment) {
            (Whence::Point(name), _) => {
                self.moments.hit(name);
                name
            }
            (Whence::Anywhere | Whence::Crashed, Moment::Point { name, .. }) => {
                self.moments.missed(name);
                "anywhere"
            }
            (
                Whence::Anywhere | Whence::Crashed,
                Moment::AfterSpawn(_) | Moment::AfterReady(_) | Moment::Quiet(_),
            ) => "anywhere",
        };
        worker.kill(place, &self.ledger.pen)?;
        match whence {
            Whence::Crashed => self.story.crashes += 1,
            Whence::Point(_) | Whence::Anywhere => self.story.kills += 1,
        }
        self.bury(&worker)
    }

    fn spawn(&mut self, moment: &Moment) -> Result<Worker, Stop> {
        self.last_child += 1;
        let what = (self.plan, self.room, self.seed);
        Ok(Worker::spawn(
            ChildNo(self.last_child),
            what,
            moment,
            &self.ledger.pen,
        )?)
    }

    /// Works with a worker until its moment has come.
    fn live(&mut self, worker: &mut Worker, moment: &Moment) -> Result<Whence, Stop> {
        let mut end = match moment {
            Moment::AfterSpawn(delay) => worker.spawned + *delay,
            Moment::Point { .. } => worker.spawned + POINT,
            Moment::AfterReady(_) => worker.spawned + PATIENCE,
            Moment::Quiet(length) => clock::now() + *length,
        };
        loop {
            if worker.is_ready {
                self.feed(worker)?;
            }
            self.tell();
            let heard = worker.hear(end.min(clock::now() + TELL));
            let now = clock::now();
            match heard {
                Heard::Nothing if now >= end => return Ok(Whence::Anywhere),
                Heard::Nothing => {}
                Heard::Gone => return Ok(Whence::Crashed),
                Heard::Said(Said::Point(name)) => return Ok(Whence::Point(name)),
                Heard::Said(Said::Ready) => {
                    worker.is_ready = true;
                    if let Moment::AfterReady(delay) = moment {
                        end = now + *delay;
                    }
                }
                Heard::Said(Said::Answer(req, ref answer)) => self.answered(req, answer)?,
            }
            if let Moment::Quiet(length) = moment {
                if self.is_all_over() {
                    return Ok(Whence::Anywhere);
                }
                if heard != Heard::Nothing {
                    end = now + *length;
                }
            }
        }
    }

    /// Runs that were set aside are told to try again, trips and their children.
    fn let_go_on(&mut self) -> Result<(), Stop> {
        let is_open = |script: &&Script| script.state != State::Over;
        let open: Vec<String> = self
            .scripts
            .values()
            .filter(is_open)
            .flat_map(|s| [s.trip.clone(), leg_of(&s.trip)])
            .collect();
        if open.is_empty() {
            return Ok(());
        }
        let inspector = Inspector::open(self.room.db())?;
        for id in open {
            // One that is not there is for the judge.
            let run = inspector.describe(&RunRef::newest(WorkflowId::new(id.as_str())));
            let trouble = run.ok().and_then(|run| run.trouble);
            if trouble.is_some_and(|t| t.cause == TaskFailedCause::Quarantined) {
                self.story.set_aside += 1;
                self.ask(id, Call::Retry);
            }
        }
        Ok(())
    }

    /// New runs as far as it is their time, and everything that waits to be sent.
    fn feed(&mut self, worker: &mut Worker) -> Result<(), Stop> {
        let (runs, kills) = self.plan.size();
        let due = runs.saturating_mul(self.story.kills + 1) / kills.max(1);
        while self.begun < due.min(runs) && self.begun - self.over < OPEN {
            self.begun += 1;
            let script = Script::new(self.seed, self.begun);
            let (trip, call) = (script.trip.clone(), script.open());
            self.scripts.insert(trip.clone(), script);
            self.ask(trip, call);
        }
        let mut kept = None;
        for request in &self.queue {
            if request.req.0 > self.last_recorded {
                self.last_recorded = request.req.0;
                kept = Some(self.ledger.pen.say(Record::Req(request.clone()))?);
            }
        }
        if let Some(kept) = kept {
            // On one connection records are kept in order: the last one speaks for all.
            kept.blocking_recv()
                .map_err(|_| Stop::Failure("the ledger is gone".into()))?;
        }
        for request in self.queue.drain(..) {
            worker.send(&request);
            self.in_flight.insert(request.req, request);
        }
        Ok(())
    }

    fn ask(&mut self, trip: String, call: Call) {
        self.last_req += 1;
        self.queue.push_back(Request {
            req: ReqNo(self.last_req),
            trip,
            call,
        });
    }

    fn answered(&mut self, req: ReqNo, answer: &Answer) -> Result<(), Stop> {
        let Some(request) = self.in_flight.remove(&req) else {
            return Ok(());
        };
        if matches!(answer, Answer::Unknown(_)) {
            self.queue.push_back(request);
            return Ok(());
        }
        if let Some(death) = self.death.take() {
            self.story.recoveries.push(death.elapsed());
        }
        // Nobody waits: the order on this connection is all that matters.
        drop(self.ledger.pen.say(Record::Ack(req, answer.clone()))?);
        let Some(script) = self.scripts.get_mut(&request.trip) else {
            return Ok(());
        };
        let was_over = script.state == State::Over;
        let calls = script.answered(&request.call, answer);
        self.over += u64::from(!was_over && script.state == State::Over);
        for call in calls {
            self.ask(request.trip.clone(), call);
        }
        Ok(())
    }

    /// A worker is dead: what it said counts, what it did not answer is asked again.
    fn bury(&mut self, worker: &Worker) -> Result<(), Stop> {
        for said in worker.last_words() {
            if let Said::Answer(req, answer) = said {
                self.answered(req, &answer)?;
            }
        }
        self.death = Some(clock::now());
        let unanswered = std::mem::take(&mut self.in_flight);
        for request in unanswered.into_values().rev() {
            if !self.is_let_go(&request) {
                self.queue.push_front(request);
            }
        }
        Ok(())
    }

    /// Some messages that raced with the end of their run are not sent again: they may have
    /// arrived or not, but never twice.
    fn is_let_go(&self, request: &Request) -> bool {
        let script = self.scripts.get(&request.trip);
        let has_moved_on = script.is_none_or(|s| !matches!(s.state, State::Sending(_)));
        match request.call {
            Call::Add(value) => has_moved_on && value % 2 == 0,
            // A question is nobody's after its asker has gone.
            Call::Ask => has_moved_on,
            Call::Start
            | Call::Enter(_)
            | Call::Finish
            | Call::Cancel
            | Call::Terminate
            | Call::Result
            | Call::Retry => false,
        }
    }

    fn patience(&self) -> Duration {
        match self.plan.planted {
            Some(_) => PLANTED_PATIENCE,
            None => PATIENCE,
        }
    }

    fn is_all_over(&self) -> bool {
        let (runs, _) = self.plan.size();
        let is_idle = self.queue.is_empty() && self.in_flight.is_empty();
        self.begun == runs && self.over == runs && is_idle
    }

    fn tell(&mut self) {
        if !out::is_terminal() || self.told.elapsed() < TELL {
            return;
        }
        self.told = clock::now();
        let (kills, over, points) = (self.story.kills, self.over, self.moments.reached());
        out::redraw(&format!(
            "kills {kills}, runs ended {over}, named points {points}"
        ));
    }
}
