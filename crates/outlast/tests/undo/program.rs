//! Random programs of calls with an undo, and all the ways to stop waiting for one.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, select, select_all};
use outlast_model::event::Started;
use outlast_model::task::AttemptResult;
use outlast_model::{
    ActivityOptions, CancelMode, ChildCancel, ChildOptions, Failure, Payload, Resolution,
    RetryPolicy, StepName, StepOptions, WorkflowId,
};
use outlast_runtime::{
    Context, HandlerEnd, HandlerFuture, MainFuture, MainOutcome, Operation, Supervision, UndoInput,
};

use super::rng::Rng;

/// The activity that has an effect, and the one that takes it back.
pub const DO: &str = "do";
pub const UNDO: &str = "undo";
/// The child that has its effect when it completes.
pub const KID: &str = "kid";
/// Starts a handler that makes a call of its own.
pub const GO: &str = "go";

/// Names one effect.
pub type EffectKey = u64;

pub fn payload(key: EffectKey) -> Payload {
    Payload::raw_json(key.to_string())
}

pub fn key_of(payload: &Payload) -> EffectKey {
    payload.decode().expect("an effect has a number")
}

#[derive(Clone, Debug)]
pub enum Piece {
    Call(Doing),
    Step(EffectKey),
    Sleep(u64),
    /// The first wins, the others are dropped.
    Race(Vec<Piece>),
    All(Vec<Piece>),
    Row(Vec<Piece>),
    /// With a time limit.
    Limited(Vec<Piece>, u64),
    /// Asked to stop after so long, then waited for.
    Cancelled(Doing, u64),
    Detached(Doing),
    Child(Kid),
    /// Asked to stop after so long, then waited for.
    CancelledChild(Kid, u64),
    /// Beside the rest: left alone, or cancelled after so long.
    Branch(Vec<Piece>, Option<u64>),
    Scope(Vec<Piece>),
    Shield(Vec<Piece>),
}

/// A call that has an effect.
#[derive(Clone, Copy, Debug)]
pub struct Doing {
    pub key: EffectKey,
    mode: CancelMode,
    attempts: u32,
    by: By,
}

/// A child that has an effect.
#[derive(Clone, Copy, Debug)]
pub struct Kid {
    key: EffectKey,
    mode: ChildCancel,
    by: By,
}

/// What its undo is given.
#[derive(Clone, Copy, Debug)]
enum By {
    Key,
    ResultOrKey,
}

impl By {
    fn input(self, key: EffectKey) -> UndoInput {
        match self {
            Self::Key => UndoInput::Given(payload(key)),
            Self::ResultOrKey => UndoInput::Result {
                unknown: Some(payload(key)),
            },
        }
    }
}

#[derive(Clone, Debug)]
pub struct Program {
    pieces: Vec<Piece>,
    handler: Doing,
    /// The handler leaves its call to itself.
    detaches: bool,
    end: HandlerEnd,
    fails: bool,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#?}")
    }
}

impl Program {
    pub fn make(seed: u64) -> Self {
        let mut maker = Maker {
            rng: Rng::new(seed),
            keys: 0,
        };
        let count = maker.rng.range(1, 4);
        let pieces = (0..count).map(|_| maker.piece(3)).collect();
        Self {
            pieces,
            handler: maker.doing(),
            detaches: maker.rng.chance(30),
            end: maker
                .rng
                .pick(&[HandlerEnd::Warn, HandlerEnd::Abandon, HandlerEnd::Finish]),
            fails: maker.rng.chance(75),
        }
    }
}

struct Maker {
    rng: Rng,
    keys: u64,
}

impl Maker {
    fn key(&mut self) -> EffectKey {
        self.keys += 1;
        self.keys
    }

    fn doing(&mut self) -> Doing {
        Doing {
            key: self.key(),
            mode: self
                .rng
                .pick(&[CancelMode::Try, CancelMode::Wait, CancelMode::Abandon]),
            attempts: self.rng.pick(&[0, 1, 2, 3]),
            by: self.rng.pick(&[By::Key, By::ResultOrKey]),
        }
    }

    fn kid(&mut self) -> Kid {
        Kid {
            key: self.key(),
            mode: self.rng.pick(&[
                ChildCancel::Try,
                ChildCancel::Wait,
                ChildCancel::Abandon,
                ChildCancel::RequestOnly,
            ]),
            by: self.rng.pick(&[By::Key, By::ResultOrKey]),
        }
    }

    fn several(&mut self, depth: u32) -> Vec<Piece> {
        let count = self.rng.range(1, 3);
        (0..count).map(|_| self.piece(depth - 1)).collect()
    }

    fn piece(&mut self, depth: u32) -> Piece {
        let secs = self.rng.range(1, 9);
        match self.rng.below(if depth == 0 { 8 } else { 16 }) {
            0..=2 => Piece::Call(self.doing()),
            3 => Piece::Step(self.key()),
            4 => Piece::Sleep(secs),
            5 => Piece::Cancelled(self.doing(), secs),
            6 => Piece::Child(self.kid()),
            7 => Piece::CancelledChild(self.kid(), secs),
            8 | 9 => Piece::Race(self.several(depth)),
            10 => Piece::All(self.several(depth)),
            11 => Piece::Limited(self.several(depth), secs),
            12 => Piece::Detached(self.doing()),
            13 => {
                let pieces = self.several(depth);
                Piece::Branch(pieces, self.rng.chance(60).then_some(secs))
            }
            14 => Piece::Scope(self.several(depth)),
            _ if self.rng.chance(50) => Piece::Shield(self.several(depth)),
            _ => Piece::Row(self.several(depth)),
        }
    }
}

/// Runs the program whose seed is the input of the run.
pub struct Interpreter;

impl outlast_runtime::Program for Interpreter {
    fn start(&self, ctx: Context, started: &Started) -> Result<MainFuture, Failure> {
        let program = Program::make(key_of(&started.input));
        let (handler, detaches) = (program.handler, program.detaches);
        let is_first = Rc::new(Cell::new(true));
        let handle = move |ctx: Context, _| -> HandlerFuture {
            let is_first = is_first.replace(false);
            Box::pin(async move {
                match (is_first, detaches) {
                    (true, true) => doing(ctx, handler).detach(),
                    (true, false) => drop(doing(ctx, handler).await),
                    (false, _) => {}
                }
                Ok(())
            })
        };
        ctx.on_signal_until(GO.into(), Rc::new(handle), program.end);
        Ok(Box::pin(async move {
            row(ctx, program.pieces).await;
            if ctx.is_cancelled() {
                MainOutcome::Canceled
            } else if program.fails {
                MainOutcome::Failed(Failure::application("test", "in the end"))
            } else {
                MainOutcome::Completed(Payload::null())
            }
        }))
    }
}

/// A child: its number says how long it takes, whether it listens and whether it fails.
pub struct Childhood;

impl outlast_runtime::Program for Childhood {
    fn start(&self, ctx: Context, started: &Started) -> Result<MainFuture, Failure> {
        let key = key_of(&started.input);
        let (secs, listens, fails) = (key % 7 + 1, key % 2 == 1, key.is_multiple_of(5));
        Ok(Box::pin(async move {
            let slept = if listens {
                sleep(ctx, secs).await
            } else {
                ctx.shield(|| sleep(ctx, secs)).await
            };
            match slept {
                Resolution::Canceled(_) => MainOutcome::Canceled,
                Resolution::Completed(_) | Resolution::Failed(..) if fails => {
                    MainOutcome::Failed(Failure::application("test", "it did nothing"))
                }
                Resolution::Completed(_) | Resolution::Failed(..) => {
                    MainOutcome::Completed(payload(key))
                }
            }
        }))
    }
}

type Running = Pin<Box<dyn Future<Output = ()>>>;

fn doing(ctx: Context, doing: Doing) -> Operation {
    let options = ActivityOptions {
        retry: RetryPolicy::times(doing.attempts),
        cancel: doing.mode,
        start_to_close: Some(Duration::from_secs(20)),
        ..ActivityOptions::default()
    };
    let call = ctx.activity(DO.into(), payload(doing.key), options);
    call.undo_with(
        UNDO.into(),
        ActivityOptions::default(),
        doing.by.input(doing.key),
    )
}

fn child(ctx: Context, kid: Kid) -> Operation {
    let options = ChildOptions {
        cancel: kid.mode,
        ..ChildOptions::default()
    };
    let id = WorkflowId::new(format!("{KID}-{}", kid.key));
    let call = ctx.child(KID.into(), Some(id), payload(kid.key), options);
    call.undo_with(
        UNDO.into(),
        ActivityOptions::default(),
        kid.by.input(kid.key),
    )
}

fn step(ctx: Context, key: EffectKey) -> Operation {
    let code = Arc::new(|| -> Pin<Box<dyn Future<Output = AttemptResult> + Send>> {
        Box::pin(async { AttemptResult::Completed(Payload::null()) })
    });
    let name = StepName::new(key.to_string());
    let input = UndoInput::Given(payload(key));
    let step = ctx.step(name, StepOptions::default(), code);
    step.undo_with(UNDO.into(), ActivityOptions::default(), input)
}

fn sleep(ctx: Context, secs: u64) -> Operation {
    ctx.timer(Duration::from_secs(secs))
}

fn row(ctx: Context, pieces: Vec<Piece>) -> Running {
    Box::pin(async move {
        for piece in pieces {
            run(ctx, piece).await;
        }
    })
}

fn run(ctx: Context, piece: Piece) -> Running {
    Box::pin(async move {
        match piece {
            Piece::Call(call) => drop(doing(ctx, call).await),
            Piece::Step(key) => drop(step(ctx, key).await),
            Piece::Sleep(secs) => drop(sleep(ctx, secs).await),
            Piece::Race(pieces) => {
                drop(select_all(pieces.into_iter().map(|piece| run(ctx, piece))).await);
            }
            Piece::All(pieces) => {
                join_all(pieces.into_iter().map(|piece| run(ctx, piece))).await;
            }
            Piece::Row(pieces) => row(ctx, pieces).await,
            Piece::Limited(pieces, secs) => {
                let limit = ctx.limit(Duration::from_secs(secs));
                drop(select(row(ctx, pieces), limit).await);
            }
            Piece::Cancelled(call, secs) => {
                let call = doing(ctx, call);
                sleep(ctx, secs).await;
                call.cancel();
                call.await;
            }
            Piece::Detached(call) => doing(ctx, call).detach(),
            Piece::Child(kid) => drop(child(ctx, kid).await),
            Piece::CancelledChild(kid, secs) => {
                let call = child(ctx, kid);
                sleep(ctx, secs).await;
                call.cancel();
                call.await;
            }
            Piece::Branch(pieces, cancelled) => {
                let branch = ctx.spawn(row(ctx, pieces));
                if let Some(secs) = cancelled {
                    sleep(ctx, secs).await;
                    branch.cancel();
                }
            }
            Piece::Scope(pieces) => {
                let scoped = ctx.scope(Supervision::FailTogether, |_| async move {
                    drop(ctx.spawn(row(ctx, pieces)));
                    Ok(())
                });
                drop(scoped.await);
            }
            Piece::Shield(pieces) => ctx.shield(|| row(ctx, pieces)).await,
        }
    })
}
