//! Live = replay = evicted, for random small programs under random news.
//!
//! A program is a tree of durable calls and combinators; the news of each task is chosen among
//! what is open, so the same choices mean the same news only if both runs are equal so far.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use futures::future::{join_all, select, select_all};
use outlast_model::command::ContinueAsNew;
use outlast_model::event::{CancelOf, ChildEvent, ExternalEvent, StartFailedCause};
use outlast_model::task::builtin_query;
use outlast_model::view::RunRef;
use outlast_model::{
    ActivityOptions, CancelMode, ChildCancel, Failure, Headers, Payload, Resolution, Seq,
};
use outlast_runtime::{
    Context, HandlerEnd, MainOutcome, Operation, SignalHandler, Supervision, UpdateHandler, Wait,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::backend::{Backend, Cache};
use crate::children::child;
use crate::flow::{Flow, Log, act_with, done, sleep, step, word};

#[derive(Clone, Debug)]
enum Piece {
    Activity(CancelMode),
    Undoable,
    Timer,
    Step,
    Receive(&'static str),
    Handle(&'static str),
    Random,
    /// Asks for an activity, waits for a timer, cancels the activity and waits for it.
    CancelSent(CancelMode),
    Detach,
    Child(ChildCancel),
    /// Asks for a child, waits for its start, cancels it and waits for it.
    CancelStarted(ChildCancel),
    Tell,
    Stop,
    Promise(&'static str),
    Patch,
    HandleUpdate(&'static str),
    All(Vec<Piece>),
    First(Vec<Piece>),
    Row(Vec<Piece>),
    Spawn(Vec<Piece>),
    SpawnThenCancel(Vec<Piece>),
    Shield(Vec<Piece>),
    /// Counts one up, which conditions may wait for.
    Write,
    /// Waits until so many were counted.
    Until(u32),
    /// Runs the pieces as branches of a scope; the first failed activity fails it.
    Scope(Vec<Piece>),
    /// The same, and every branch fails alone.
    Supervised(Vec<Piece>),
    /// A scope that loses a race against a timer.
    DroppedScope(Vec<Piece>),
}

fn mode() -> impl Strategy<Value = CancelMode> {
    prop_oneof![
        Just(CancelMode::Try),
        Just(CancelMode::Wait),
        Just(CancelMode::Abandon)
    ]
}

fn child_mode() -> impl Strategy<Value = ChildCancel> {
    prop_oneof![
        Just(ChildCancel::Abandon),
        Just(ChildCancel::Try),
        Just(ChildCancel::Wait),
        Just(ChildCancel::RequestOnly)
    ]
}

fn name() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("x"), Just("y")]
}

fn piece() -> impl Strategy<Value = Piece> {
    let leaf = prop_oneof![
        4 => mode().prop_map(Piece::Activity),
        2 => Just(Piece::Undoable),
        3 => Just(Piece::Timer),
        3 => Just(Piece::Step),
        2 => Just(Piece::Receive("received")),
        1 => name().prop_map(Piece::Handle),
        1 => Just(Piece::Random),
        2 => mode().prop_map(Piece::CancelSent),
        1 => Just(Piece::Detach),
        3 => child_mode().prop_map(Piece::Child),
        2 => child_mode().prop_map(Piece::CancelStarted),
        1 => Just(Piece::Tell),
        1 => Just(Piece::Stop),
        2 => name().prop_map(Piece::Promise),
        1 => Just(Piece::Patch),
        2 => name().prop_map(Piece::HandleUpdate),
        2 => Just(Piece::Write),
        2 => (0_u32..4).prop_map(Piece::Until),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let several = vec(inner, 1..4);
        prop_oneof![
            several.clone().prop_map(Piece::All),
            several.clone().prop_map(Piece::First),
            several.clone().prop_map(Piece::Row),
            several.clone().prop_map(Piece::Spawn),
            several.clone().prop_map(Piece::SpawnThenCancel),
            several.clone().prop_map(Piece::Shield),
            several.clone().prop_map(Piece::Scope),
            several.clone().prop_map(Piece::Supervised),
            several.prop_map(Piece::DroppedScope),
        ]
    })
}

type Running = Pin<Box<dyn Future<Output = ()>>>;

fn run(ctx: Context, log: Log, piece: Piece) -> Running {
    Box::pin(async move {
        match piece {
            Piece::Activity(mode) => log.note(word(&act_with(ctx, "a", mode).await)),
            Piece::Undoable => {
                let call = act_with(ctx, "u", CancelMode::Try);
                log.note(word(
                    &call.undo("undo".into(), ActivityOptions::default()).await,
                ));
            }
            Piece::Timer => log.note(word(&sleep(ctx, 1).await)),
            Piece::Step => log.note(word(&step(ctx, "s").await)),
            Piece::Receive(name) => log.note(word(&ctx.recv(name.into()).await)),
            Piece::Handle(name) => handle(ctx, &log, name),
            Piece::Random => log.note(format!("{} {}", ctx.random(), ctx.now())),
            Piece::CancelSent(mode) => {
                let call = act_with(ctx, "c", mode);
                sleep(ctx, 1).await;
                call.cancel();
                log.note(word(&call.await));
            }
            Piece::Detach => act_with(ctx, "d", CancelMode::Try).detach(),
            Piece::Child(mode) => log.note(word(&child(ctx, mode).await)),
            Piece::CancelStarted(mode) => {
                let child = child(ctx, mode);
                log.note(format!("{:?}", child.started().await.is_ok()));
                child.cancel();
                log.note(word(&child.await));
            }
            Piece::Tell => log.note(word(&say(ctx).await)),
            Piece::Stop => {
                let target = RunRef::newest("other".into());
                log.note(word(&ctx.cancel_external(target, "enough").await));
            }
            Piece::Promise(name) => log.note(word(&ctx.promise(name.into()).await)),
            Piece::Patch => log.note(format!("patched {}", ctx.patched("p".into()))),
            Piece::HandleUpdate(name) => handle_update(ctx, &log, name),
            Piece::All(pieces) => {
                join_all(pieces.into_iter().map(|p| run(ctx, log.clone(), p))).await;
            }
            Piece::First(pieces) => {
                let (_, winner, _) =
                    select_all(pieces.into_iter().map(|p| run(ctx, log.clone(), p))).await;
                log.note(format!("winner {winner}"));
            }
            Piece::Row(pieces) => row(ctx, log, pieces).await,
            Piece::Spawn(pieces) => drop(ctx.spawn(row(ctx, log, pieces))),
            Piece::SpawnThenCancel(pieces) => {
                let branch = ctx.spawn(row(ctx, log, pieces));
                sleep(ctx, 1).await;
                branch.cancel();
            }
            Piece::Shield(pieces) => ctx.shield(|| row(ctx, log, pieces)).await,
            Piece::Write => write(ctx),
            Piece::Until(n) => log.note(format!("{:?}", until(ctx, n).await)),
            Piece::Scope(pieces) => {
                let scoped = scope(ctx, &log, Supervision::FailTogether, pieces);
                log.note(format!(
                    "scope {:?}",
                    scoped.await.map_err(|f| f.to_string())
                ));
            }
            Piece::Supervised(pieces) => {
                let scoped = scope(ctx, &log, Supervision::FailAlone, pieces);
                log.note(format!("supervised {:?}", scoped.await.is_ok()));
            }
            Piece::DroppedScope(pieces) => {
                let scoped = scope(ctx, &log, Supervision::FailTogether, pieces);
                drop(select(scoped, sleep(ctx, 1)).await);
            }
        }
    })
}

fn write(ctx: Context) {
    ctx.with_state(|state| *state.downcast_mut::<u32>().expect("a count") += 1);
}

fn until(ctx: Context, n: u32) -> Wait {
    ctx.wait_until(Box::new(move |state| {
        *state.downcast_ref::<u32>().expect("a count") >= n
    }))
}

/// A branch for each piece, and one that fails if its activity does.
fn scope(
    ctx: Context,
    log: &Log,
    supervision: Supervision,
    pieces: Vec<Piece>,
) -> impl Future<Output = Result<(), Failure>> + Unpin + use<> {
    let log = log.clone();
    ctx.scope(supervision, |scope| async move {
        drop(scope.spawn(async move {
            match act_with(ctx, "may fail", CancelMode::Try).await {
                Resolution::Completed(_) => Ok(()),
                Resolution::Failed(failure, _) => Err(failure),
                Resolution::Canceled(_) => Err(Failure::canceled("cancelled")),
            }
        }));
        for piece in pieces {
            drop(ctx.spawn(run(ctx, log.clone(), piece)));
        }
        log.note(word(&sleep(ctx, 1).await));
        Ok(())
    })
}

fn row(ctx: Context, log: Log, pieces: Vec<Piece>) -> Running {
    Box::pin(async move {
        for piece in pieces {
            run(ctx, log.clone(), piece).await;
        }
    })
}

fn handle(ctx: Context, log: &Log, name: &'static str) {
    let log = log.clone();
    let handler: SignalHandler = Rc::new(move |ctx: Context, input| {
        let log = log.clone();
        Box::pin(async move {
            write(ctx);
            log.note(format!(
                "handler {} {}",
                input.size(),
                word(&sleep(ctx, 1).await)
            ));
            Ok(())
        })
    });
    let end = match name {
        "x" => HandlerEnd::Finish,
        _ => HandlerEnd::Warn,
    };
    ctx.on_signal_until(name.into(), handler, end);
}

fn say(ctx: Context) -> Operation {
    let target = RunRef::newest("other".into());
    ctx.signal_external(target, "hello".into(), Payload::null())
}

/// Turns away every other update; the others sleep first.
fn handle_update(ctx: Context, log: &Log, name: &'static str) {
    let log = log.clone();
    let handler = UpdateHandler {
        validator: Some(Rc::new(|_, request| {
            let is_welcome = request.input.size() % 2 == 0;
            let refused = || Failure::application("test", "no");
            is_welcome.then_some(()).ok_or_else(refused)
        })),
        code: Rc::new(move |ctx, request| {
            let log = log.clone();
            Box::pin(async move {
                log.note(format!("{} {}", request.id, word(&sleep(ctx, 1).await)));
                Ok(request.input)
            })
        }),
        end: HandlerEnd::default(),
    };
    ctx.on_update(name.into(), handler);
}

/// Main: all pieces, then a signal that somebody will send, then the end.
fn flow(pieces: &[Piece], ending: u8) -> Flow {
    let pieces = pieces.to_vec();
    Flow::new(move |ctx, log| {
        let pieces = pieces.clone();
        ctx.set_state(Box::new(0_u32));
        handle(ctx, &log, "write");
        async move {
            row(ctx, log.clone(), pieces).await;
            log.note(word(&ctx.recv("end".into()).await));
            match ending {
                0 => done(),
                1 => MainOutcome::Canceled,
                2 => MainOutcome::Failed(Failure::application("test", "end")),
                3.. => MainOutcome::ContinueAsNew(Box::new(ContinueAsNew {
                    workflow_type: None,
                    queue: None,
                    input: Payload::null(),
                    run_timeout: None,
                    signals: Vec::new(),
                    headers: Headers::new(),
                })),
            }
        }
    })
}

/// One piece of news, chosen among what is open.
fn tell(backend: &mut Backend, choice: u8) {
    let pick = usize::from(choice / 16);
    let nth = |seqs: Vec<Seq>| seqs.get(pick % seqs.len().max(1)).map(|seq| seq.0);
    match choice % 16 {
        0 | 1 => {
            if let Some(seq) = nth(backend.activities.keys().copied().collect()) {
                backend.complete(seq, "r");
            }
        }
        2 => {
            if let Some(seq) = nth(backend.activities.keys().copied().collect()) {
                backend.fail(seq, "f");
            }
        }
        3 | 4 => {
            if let Some(seq) = nth(backend.timers.keys().copied().collect()) {
                backend.fire(seq);
            }
        }
        5 => {
            let open = backend
                .steps
                .iter()
                .filter(|(_, (_, is_resolved))| !is_resolved);
            if let Some(seq) = nth(open.map(|(seq, _)| *seq).collect()) {
                backend.resolve_step(seq, Resolution::Completed(Payload::bytes("s")));
            }
        }
        6 => drop(
            backend
                .signal(["x", "y", "end", "write", "received"][pick % 5], "m")
                .has_news(),
        ),
        7 => {
            if pick == 0 {
                backend.cancel();
            }
        }
        8 | 9 => {
            if let Some(seq) = nth(backend.children.keys().copied().collect()) {
                tell_of_child(backend, seq, pick);
            }
        }
        10 => {
            if let Some(seq) = nth(backend.sent.keys().copied().collect()) {
                backend.external(ExternalEvent::SignalDelivered { seq: Seq(seq) });
            }
        }
        11 | 12 => {
            let requests: Vec<CancelOf> = backend.requests.keys().copied().collect();
            if let Some(of) = requests.get(pick % requests.len().max(1)).copied() {
                backend.external(ExternalEvent::CancelDelivered { of });
            }
        }
        13 => drop(backend.settle(["x", "y"][pick % 2], "1").has_news()),
        14.. => {
            let (id, name) = (format!("u{}", backend.asked), ["x", "y"][pick % 2]);
            if choice % 16 == 14 {
                backend.update(&id, name, ["", "1"][pick / 2 % 2]);
            } else {
                backend.admit(&id, name, ["", "1"][pick / 2 % 2]);
            }
        }
    }
}

fn tell_of_child(backend: &mut Backend, seq: u32, pick: usize) {
    let is_started = backend.children[&Seq(seq)];
    if is_started {
        backend.child_completed(seq, "c");
    } else if pick.is_multiple_of(4) {
        let (seq, cause) = (Seq(seq), StartFailedCause::AlreadyExists);
        backend.child(ChildEvent::StartFailed { seq, cause });
    } else {
        backend.child_started(seq);
    }
}

fn play(backend: &mut Backend, news: &[Vec<u8>]) {
    backend.turn();
    for batch in news {
        for choice in batch {
            tell(backend, *choice);
        }
        if backend.is_closed || backend.failed.is_some() {
            return;
        }
        if backend.has_news() {
            backend.turn();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn live_is_replay_is_evicted(
        pieces in vec(piece(), 1..5),
        ending in 0_u8..4,
        news in vec(vec(any::<u8>(), 1..4), 1..40),
    ) {
        let mut live = Backend::shared(Rc::new(flow(&pieces, ending)), Cache::Keep);
        play(&mut live, &news);
        prop_assert_eq!(live.failure(), "");
        let log = live.log();

        let mut evicted = Backend::shared(Rc::new(flow(&pieces, ending)), Cache::EvictAlways);
        play(&mut evicted, &news);
        prop_assert_eq!(evicted.failure(), "");
        prop_assert_eq!(&live.history, &evicted.history);
        prop_assert_eq!(&log, &evicted.log());
        prop_assert_eq!(&live.answers, &evicted.answers);
        for question in [builtin_query::STACK, builtin_query::HANDLERS] {
            prop_assert_eq!(live.query(question, ""), evicted.query(question, ""));
        }

        live.instance = None;
        drop(live.replayed().expect("replays"));
        prop_assert_eq!(&log, &live.log());
    }
}
