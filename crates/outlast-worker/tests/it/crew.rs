//! Whoever polls: the language side in a few lines, without engine threads. A run asks for one
//! activity and ends with its outcome.

use std::sync::{Arc, Mutex};

use outlast_model::command::ScheduleActivity;
use outlast_model::event::Site;
use outlast_model::task::AttemptResult;
use outlast_model::{Command, Headers, Job, Payload, QueueName, Seq, Shared};
use outlast_worker::handle::{Completion, PolledActivity, PolledWork};
use outlast_worker::owner::entry::State;
use outlast_worker::owner::{Owner, OwnerSettings};
use outlast_worker::{Bus, Severity, WorkerEvent};
use tokio::task::JoinHandle;

use crate::fake::Fake;

/// What the owner told.
#[derive(Clone, Default)]
pub(crate) struct Told(Arc<Mutex<Vec<WorkerEvent>>>);

impl Told {
    pub(crate) fn events(&self) -> Vec<WorkerEvent> {
        self.0.lock().expect("nobody panics").clone()
    }

    /// How many events of this name there were.
    pub(crate) fn count(&self, name: &str) -> usize {
        let events = self.events();
        events.iter().filter(|event| event.name() == name).count()
    }
}

/// An owner over a cluster.
pub(crate) fn owner(fake: &Fake) -> (Owner, Told) {
    let (told, bus) = (Told::default(), Bus::default());
    let sink = told.clone();
    bus.listen(Severity::Debug, move |event| {
        sink.0.lock().expect("nobody panics").push(event.clone());
    });
    let settings = OwnerSettings {
        open_tries: 4,
        ..OwnerSettings::default()
    };
    let runtime = tokio::runtime::Handle::current();
    let connector = Arc::new(fake.clone());
    let owner = Owner::new(connector, runtime, settings, Arc::new(|| 500), bus);
    (owner, told)
}

pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::new(name)
}

/// What the code says to an activation.
pub(crate) fn answer(work: &PolledWork) -> Completion {
    match work {
        PolledWork::Evict { .. } => Completion::Evicted,
        PolledWork::Ask(queries) => {
            let answers = queries.iter();
            Completion::Queried(
                answers
                    .map(|q| (q.id.clone(), Ok(Payload::null())))
                    .collect(),
            )
        }
        PolledWork::Activate(activation) => {
            Completion::Commands(activation.jobs.iter().map(command).collect())
        }
    }
}

fn command(job: &Job) -> Command {
    if let Job::Initialize(_) = job {
        return Command::ScheduleActivity(Box::new(ScheduleActivity {
            seq: Seq(1),
            activity_type: "work".into(),
            input: Payload::null(),
            options: Shared::default(),
            headers: Headers::default(),
            site: Site::default(),
        }));
    }
    Command::CompleteWorkflow {
        result: Payload::null(),
    }
}

/// A poller of activations.
pub(crate) fn poll_activations(owner: &Owner, name: &str) -> JoinHandle<()> {
    let (owner, name) = (owner.clone(), queue(name));
    tokio::spawn(async move {
        loop {
            match owner.next_activation(&name).await {
                Ok(polled) => {
                    let completion = answer(&polled.item.work);
                    let run_id = polled.item.run_id;
                    let then = Box::new(drop);
                    owner.complete_activation(&name, polled.generation, run_id, completion, then);
                }
                Err(_) if owner.state(&name) == State::Absent => return,
                Err(_) => {}
            }
        }
    })
}

/// A poller of activities.
pub(crate) fn poll_activities(owner: &Owner, name: &str) -> JoinHandle<()> {
    let (owner, name) = (owner.clone(), queue(name));
    tokio::spawn(async move {
        loop {
            match owner.next_activity(&name).await {
                Ok(polled) => {
                    if let PolledActivity::Start(token, _) = polled.item {
                        let result = AttemptResult::Completed(Payload::null());
                        let then = Box::new(drop);
                        owner.complete_activity(&name, polled.generation, token, result, then);
                    }
                }
                Err(_) if owner.state(&name) == State::Absent => return,
                Err(_) => {}
            }
        }
    })
}
