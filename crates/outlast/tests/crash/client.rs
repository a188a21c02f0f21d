//! A client with a memory: what was acknowledged is not asked again, what was not is asked again
//! with the same request id. If the process dies under a question, the whole client is dropped,
//! and the next one goes through the same questions.

use std::cell::Cell;
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use outlast::model::Refusal;
use outlast::testing::TestClock;
use outlast::{App, CallError, Description, Handle, RunId, Signal, Start, WorkflowDef};

use crate::world::{Watcher, World};

/// How long the client waits, of real time, until it lets virtual time pass.
const TICK: Duration = Duration::from_millis(5);
/// How long it waits between two looks at a run.
const LOOK: Duration = Duration::from_millis(1);

/// Every workflow here takes the name of its case and gives a text.
pub(crate) type Contract = WorkflowDef<String, String>;
pub(crate) type Starting = Start<String, outlast::Error, Handle<String>>;

/// What a client was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ack {
    Started {
        id: String,
        run_id: RunId,
    },
    Signaled {
        id: String,
        request: String,
    },
    Cancelled {
        id: String,
    },
    Terminated {
        id: String,
    },
    Ended {
        id: String,
        text: String,
    },
    /// An update passed its validator.
    Accepted {
        id: String,
        update: String,
    },
    /// An update was answered, by its handler or by its validator.
    Updated {
        id: String,
        update: String,
        text: String,
        is_rejected: bool,
    },
    /// A question was answered.
    Answered {
        text: String,
    },
    /// An activity was answered by token.
    Completed {
        id: String,
        value: u64,
    },
    /// A second answer, or a late one, was taken: that must not be.
    CountedLate,
    Settled {
        id: String,
        promise: String,
    },
    Refused {
        code: &'static str,
    },
    Seen,
}

/// What a client remembers, longer than any process lives.
#[derive(Default)]
pub(crate) struct Memory {
    acks: Mutex<Vec<Ack>>,
    watcher: OnceLock<Watcher>,
}

impl Memory {
    /// Of somebody who was told this.
    pub(crate) fn of(acks: Vec<Ack>) -> Self {
        Self {
            acks: Mutex::new(acks),
            watcher: OnceLock::new(),
        }
    }

    pub(crate) fn watch(&self, watcher: Watcher) {
        drop(self.watcher.set(watcher));
    }

    pub(crate) fn acks(&self) -> Vec<Ack> {
        let acks = self.acks.lock().unwrap_or_else(PoisonError::into_inner);
        acks.clone()
    }

    fn add(&self, ack: Ack) {
        let mut acks = self.acks.lock().unwrap_or_else(PoisonError::into_inner);
        acks.push(ack);
        drop(acks);
        if let Some(watcher) = self.watcher.get() {
            watcher();
        }
    }
}

/// A client of one process. Workflows are named by their type and a name within the case.
pub(crate) struct Client {
    pub(crate) app: App,
    pub(crate) clock: TestClock,
    pub(crate) case: String,
    pub(crate) memory: Arc<Memory>,
    asked: Cell<usize>,
    disk: Disk,
}

/// What the client knows of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disk {
    /// It may be full once: the application pauses then, and time must pass for it to go on.
    MayBeFull,
    HasRoom,
}

impl Client {
    pub(crate) fn new(
        (app, clock): (&App, &TestClock),
        case: &str,
        memory: &Arc<Memory>,
        disk: Disk,
    ) -> Self {
        Self {
            app: app.clone(),
            clock: clock.clone(),
            case: case.to_owned(),
            memory: memory.clone(),
            asked: Cell::new(0),
            disk,
        }
    }

    pub(crate) fn world(&self) -> World {
        World::of(&self.case)
    }

    pub(crate) async fn start(&self, kind: &'static str, name: &str) {
        self.start_with(kind, name, name, |start| start).await;
    }

    /// A start with a request id and options of its own.
    pub(crate) async fn start_with(
        &self,
        kind: &'static str,
        name: &str,
        request: &str,
        options: impl Fn(Starting) -> Starting,
    ) {
        let id = self.id(name);
        self.ask(async || {
            let start = self.app.start(Contract::new(kind), &self.case).id(&id);
            let run = options(start.request_id(request)).await?;
            let (id, run_id) = (id.clone(), run.run_id().unwrap_or_default());
            Ok(Ack::Started { id, run_id })
        })
        .await;
    }

    pub(crate) async fn signal(&self, name: &str, signal: Signal<u64>, n: u64) {
        let (id, request) = (self.id(name), format!("{}-{n}", signal.name()));
        self.ask(async || {
            let sent = self.run(name).send(signal, n).request_id(&request);
            sent.await?;
            let (id, request) = (id.clone(), request.clone());
            Ok(Ack::Signaled { id, request })
        })
        .await;
    }

    pub(crate) async fn cancel(&self, name: &str) {
        self.ask(async || {
            unless_ended(self.run(name).cancel().await)?;
            Ok(Ack::Cancelled { id: self.id(name) })
        })
        .await;
    }

    pub(crate) async fn terminate(&self, name: &str) {
        self.ask(async || {
            unless_ended(self.run(name).terminate("by hand").await)?;
            Ok(Ack::Terminated { id: self.id(name) })
        })
        .await;
    }

    /// Waits for the end of the newest run of the name.
    pub(crate) async fn result(&self, name: &str) {
        self.ask(async || {
            let text = match self.run(name).result().await {
                Ok(text) => text,
                Err(CallError::Refused(refusal)) => return Err(refusal.into()),
                Err(error) => format!("error: {error}"),
            };
            let id = self.id(name);
            Ok(Ack::Ended { id, text })
        })
        .await;
    }

    /// Looks at the newest run of the name until it is there and as wanted.
    pub(crate) async fn until(&self, name: &str, is_so: impl Fn(&Description) -> bool) {
        self.ask(async || {
            loop {
                match self.run(name).describe().await {
                    Ok(run) if is_so(&run) => return Ok(Ack::Seen),
                    Ok(_) | Err(CallError::Refused(Refusal::NotFound { .. })) => {}
                    Err(error) => return Err(error),
                }
                // Nobody waits for the end of a run, so time passes only if it is told to. Each look
                // is a call of the store, at which the process is to die: there should be few.
                self.clock.advance(&self.app, Duration::from_millis(100));
                tokio::time::sleep(LOOK).await;
            }
        })
        .await;
    }

    /// The id of a workflow of this case.
    pub(crate) fn id(&self, name: &str) -> String {
        format!("{}/{name}", self.case)
    }

    pub(crate) fn run(&self, name: &str) -> Handle<String> {
        self.app.get(Contract::new("any"), self.id(name))
    }

    /// Asks until there is an answer, which is remembered; a question that was answered before
    /// is not asked again.
    pub(crate) async fn ask<F>(&self, question: impl Fn() -> F)
    where
        F: Future<Output = Result<Ack, CallError>>,
    {
        let at = self.asked.replace(self.asked.get() + 1);
        while self.memory.acks().len() <= at {
            let answer = match self.in_time(question()).await {
                Ok(ack) => Some(ack),
                Err(CallError::Refused(refusal)) => self.refused(&refusal).await,
                Err(error) => panic!("{error}"),
            };
            if let Some(ack) = answer {
                self.memory.add(ack);
            }
        }
    }

    async fn in_time<T>(&self, answer: impl Future<Output = T>) -> T {
        let mut answer = std::pin::pin!(answer);
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                () = tokio::time::sleep(TICK), if self.disk == Disk::MayBeFull => {
                    self.clock.advance(&self.app, Duration::from_secs(1));
                }
            }
        }
    }

    /// What a refusal means: ask again, or an answer like any other.
    async fn refused(&self, refusal: &Refusal) -> Option<Ack> {
        if *refusal == Refusal::StoreFull {
            tokio::time::sleep(TICK).await;
            self.clock.advance(&self.app, Duration::from_secs(1));
            return None;
        }
        if let Refusal::Indeterminate { .. } | Refusal::Unavailable { .. } = refusal {
            tokio::task::yield_now().await;
            return None;
        }
        let code = refusal.code();
        Some(Ack::Refused { code })
    }
}

/// These have no request id: the answer to one that had its effect before is that it is over.
fn unless_ended(outcome: Result<(), CallError>) -> Result<(), CallError> {
    match outcome {
        Err(CallError::Refused(Refusal::RunClosed { .. })) => Ok(()),
        outcome => outcome,
    }
}
