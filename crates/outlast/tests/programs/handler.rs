//! The handlers of messages and queries that programs register.

use std::rc::Rc;

use outlast_model::event::UpdateRequest;
use outlast_model::task::Query;
use outlast_model::{Failure, Payload};
use outlast_runtime::{
    AnySignalHandler, Context, HandlerEnd, SignalHandler, UpdateCode, UpdateHandler,
    UpdateValidator,
};

use super::ast::{Check, Node};
use super::code::{Code, Counters};
use super::desk;

/// Updates whose content ends like this are turned away.
pub const BAD: &str = "bad";

impl Code {
    /// Every program answers these.
    pub fn answer_queries(&self) {
        let log = self.log;
        self.ctx.on_query(
            "log".into(),
            Rc::new(move |_: Context, _: &Query| Ok(log.digest())),
        );
        self.ctx.show_state(Rc::new(|ctx: Context| {
            let counters = ctx.read_state(|state| state.downcast_ref::<Counters>().copied());
            Ok(Payload::bytes(format!("{counters:?}")))
        }));
        // Somebody always writes: conditions may come true, and no run waits for nothing.
        let code = self.clone();
        let write: SignalHandler = Rc::new(move |_, input: Payload| {
            code.log.note(format!("write {}", input.size()));
            code.add(super::ast::Name::X);
            Box::pin(async { Ok(()) })
        });
        self.ctx.on_signal("write".into(), write);
    }

    pub fn handle(&self, node: Node) {
        let code = self.clone();
        match node {
            Node::OnSignal(name, end, body) => {
                let handler: SignalHandler = Rc::new(move |_, input| {
                    let (code, body) = (code.clone(), body.clone());
                    Box::pin(async move {
                        code.log.note(format!("handler of {}", content(&input)));
                        let ended = code.seq(body).await;
                        code.log.note(format!("handled {}", ended.is_ok()));
                        ended
                    })
                });
                self.ctx.on_signal_until(name.text().into(), handler, end);
            }
            Node::OnUpdate(name, check, end, body) => {
                let handler = self.updates(check, end, body);
                self.ctx.on_update(name.text().into(), handler);
            }
            Node::OnAnyUpdate => {
                let handler = self.updates(Check::None, HandlerEnd::Warn, Vec::new());
                self.ctx.on_any_update(handler);
            }
            _ => {
                let handler: AnySignalHandler = Rc::new(move |_, name, input| {
                    desk::hit("signal.to-the-handler-of-any");
                    code.log.note(format!("any {name} {}", content(&input)));
                    Box::pin(async { Ok(()) })
                });
                self.ctx.on_any_signal(handler, HandlerEnd::Warn);
            }
        }
    }

    fn updates(&self, check: Check, end: HandlerEnd, body: Vec<Node>) -> UpdateHandler {
        let code = self.clone();
        let run: UpdateCode = Rc::new(move |_, request: UpdateRequest| {
            let (code, body) = (code.clone(), body.clone());
            Box::pin(async move {
                code.log
                    .note(format!("update {} {}", request.id, content(&request.input)));
                let ended = code.seq(body).await;
                code.log.note(format!("updated {}", ended.is_ok()));
                ended.map(|()| code.log.digest())
            })
        });
        UpdateHandler {
            validator: validator(check),
            code: run,
            end,
        }
    }
}

fn validator(check: Check) -> Option<UpdateValidator> {
    match check {
        Check::None => None,
        Check::Content => Some(Rc::new(|_, request| {
            if content(&request.input).ends_with(BAD) {
                return Err(Failure::application("Bad", "bad content"));
            }
            Ok(())
        })),
        Check::State => Some(Rc::new(|ctx, _| {
            let sum = ctx.read_state(|state| {
                let counters = state.downcast_ref::<Counters>();
                counters.map_or(0, |counters| counters.iter().sum::<u64>())
            });
            if sum == 0 {
                return Err(Failure::application("Early", "nothing was written"));
            }
            Ok(())
        })),
    }
}

pub fn content(payload: &Payload) -> String {
    String::from_utf8_lossy(&payload.data).into_owned()
}
