//! Names and sizes of commands. What a client sends is measured at the door; what workflow code
//! sends to others passes here, and is held to the same limits.

use alloc::format;
use alloc::string::String;

use outlast_model::event::UpdateOutcome;
use outlast_model::job::SignalMessage;
use outlast_model::{Command, Headers, limits};

type Name<'a> = Option<(&'static str, &'a str)>;

/// Whether all names of a command are names, and its payload is not too large.
pub(crate) fn check(command: &Command) -> Result<(), String> {
    for (what, name) in names(command).into_iter().flatten() {
        check_name(what, name, command.name())?;
    }
    let (size, limit) = (largest(command), limits::PAYLOAD_BYTES);
    if size > limit {
        let command = command.name();
        return Err(format!(
            "the payload of {command} has {size} bytes, the limit is {limit}: store the data \
             elsewhere and pass a reference"
        ));
    }
    check_headers(command)
}

fn check_name(what: &str, name: &str, command: &str) -> Result<(), String> {
    limits::check_id(name).map_err(|why| {
        let name: String = name.chars().take(60).collect();
        format!("the {what} {name:?} of {command} is none: {why}")
    })
}

fn check_headers(command: &Command) -> Result<(), String> {
    let Some(headers) = headers(command).filter(|headers| !headers.is_empty()) else {
        return Ok(());
    };
    let command = command.name();
    for (name, _) in headers.iter() {
        check_name("header", name, command)?;
    }
    let (size, limit) = (headers.size(), limits::HEADERS_BYTES);
    if size > limit {
        return Err(format!(
            "the headers of {command} have {size} bytes, the limit is {limit}: pass a reference"
        ));
    }
    Ok(())
}

/// Bytes of all payloads that a command brings.
pub(crate) fn weight(command: &Command) -> usize {
    let more = match command {
        Command::ContinueAsNew(next) => next.signals.iter().map(inherited).sum(),
        Command::ScheduleActivity(_)
        | Command::RequestCancelActivity { .. }
        | Command::StartTimer { .. }
        | Command::CancelTimer { .. }
        | Command::ScheduleStep { .. }
        | Command::CancelStep { .. }
        | Command::StartChild(_)
        | Command::CancelChild { .. }
        | Command::SignalExternal(_)
        | Command::CancelExternal(_)
        | Command::SetPatch { .. }
        | Command::AcceptUpdate { .. }
        | Command::RejectUpdate { .. }
        | Command::CompleteUpdate { .. }
        | Command::CompleteWorkflow { .. }
        | Command::FailWorkflow { .. }
        | Command::CancelWorkflow => 0,
    };
    let headers = headers(command).map_or(0, Headers::size);
    largest(command) + headers + more
}

fn inherited(signal: &SignalMessage) -> usize {
    signal.input.size() + signal.headers.size()
}

/// What travels with a command.
fn headers(command: &Command) -> Option<&Headers> {
    match command {
        Command::ScheduleActivity(command) => Some(&command.headers),
        Command::StartChild(command) => Some(&command.headers),
        Command::SignalExternal(command) => Some(&command.headers),
        Command::ContinueAsNew(command) => Some(&command.headers),
        Command::RequestCancelActivity { .. }
        | Command::StartTimer { .. }
        | Command::CancelTimer { .. }
        | Command::ScheduleStep { .. }
        | Command::CancelStep { .. }
        | Command::CancelChild { .. }
        | Command::CancelExternal(_)
        | Command::SetPatch { .. }
        | Command::AcceptUpdate { .. }
        | Command::RejectUpdate { .. }
        | Command::CompleteUpdate { .. }
        | Command::CompleteWorkflow { .. }
        | Command::FailWorkflow { .. }
        | Command::CancelWorkflow => None,
    }
}

/// Bytes of the payload that workflow code made. Signals that a new run inherits were measured
/// when they came.
fn largest(command: &Command) -> usize {
    match command {
        Command::ScheduleActivity(command) => command.input.size(),
        Command::StartChild(command) => command.input.size(),
        Command::SignalExternal(command) => command.input.size(),
        Command::ContinueAsNew(command) => command.input.size(),
        Command::CompleteWorkflow { result }
        | Command::CompleteUpdate {
            outcome: UpdateOutcome::Completed(result),
            ..
        } => result.size(),
        Command::RequestCancelActivity { .. }
        | Command::StartTimer { .. }
        | Command::CancelTimer { .. }
        | Command::ScheduleStep { .. }
        | Command::CancelStep { .. }
        | Command::CancelChild { .. }
        | Command::CancelExternal(_)
        | Command::SetPatch { .. }
        | Command::AcceptUpdate { .. }
        | Command::RejectUpdate { .. }
        | Command::CompleteUpdate {
            outcome: UpdateOutcome::Failed(_),
            ..
        }
        | Command::FailWorkflow { .. }
        | Command::CancelWorkflow => 0,
    }
}

/// Names that workflow code gave. Those of updates came through the door.
fn names(command: &Command) -> [Name<'_>; 3] {
    match command {
        Command::ScheduleActivity(command) => {
            let queue = command.options.queue.as_ref();
            [
                Some(("activity type", command.activity_type.as_str())),
                queue.map(|queue| ("task queue", queue.as_str())),
                None,
            ]
        }
        Command::ScheduleStep { name, .. } => [Some(("step name", name.as_str())), None, None],
        Command::StartChild(command) => {
            let queue = command.options.queue.as_ref();
            [
                Some(("workflow id", command.workflow_id.as_str())),
                Some(("workflow type", command.workflow_type.as_str())),
                queue.map(|queue| ("task queue", queue.as_str())),
            ]
        }
        Command::SignalExternal(command) => [
            Some(("workflow id", command.target.workflow_id.as_str())),
            Some(("signal name", command.name.as_str())),
            None,
        ],
        Command::CancelExternal(command) => {
            let id = command.target.workflow_id.as_str();
            [Some(("workflow id", id)), None, None]
        }
        Command::SetPatch { id, .. } => [Some(("patch id", id.as_str())), None, None],
        Command::ContinueAsNew(command) => {
            let workflow_type = command.workflow_type.as_ref();
            let queue = command.queue.as_ref();
            [
                workflow_type.map(|name| ("workflow type", name.as_str())),
                queue.map(|queue| ("task queue", queue.as_str())),
                None,
            ]
        }
        Command::RequestCancelActivity { .. }
        | Command::StartTimer { .. }
        | Command::CancelTimer { .. }
        | Command::CancelStep { .. }
        | Command::CancelChild { .. }
        | Command::AcceptUpdate { .. }
        | Command::RejectUpdate { .. }
        | Command::CompleteUpdate { .. }
        | Command::CompleteWorkflow { .. }
        | Command::FailWorkflow { .. }
        | Command::CancelWorkflow => [None, None, None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;
    use outlast_model::command::{CancelExternal, ContinueAsNew, SignalExternal, StartChild};
    use outlast_model::event::Site;
    use outlast_model::id::Seq;
    use outlast_model::view::RunRef;
    use outlast_model::{ChildOptions, Payload};
    use std::vec::Vec;

    fn child(id: &str, input: Payload) -> Command {
        Command::StartChild(Box::new(StartChild {
            seq: Seq(1),
            workflow_id: id.into(),
            workflow_type: "t".into(),
            input,
            options: ChildOptions::default(),
            site: Site::default(),
            headers: Headers::new(),
        }))
    }

    fn signal(id: &str, name: &str, input: Payload) -> Command {
        Command::SignalExternal(Box::new(SignalExternal {
            seq: Seq(1),
            target: RunRef::newest(id.into()),
            name: name.into(),
            input,
            site: Site::default(),
            headers: Headers::new(),
        }))
    }

    fn patch(id: &str) -> Command {
        Command::SetPatch {
            id: id.into(),
            is_deprecated: false,
            site: Site::default(),
        }
    }

    fn cancel(id: &str) -> Command {
        Command::CancelExternal(Box::new(CancelExternal {
            seq: Seq(1),
            target: RunRef::newest(id.into()),
            reason: String::new(),
            site: Site::default(),
        }))
    }

    fn next(input: Payload, signals: usize) -> Command {
        let large = large(limits::PAYLOAD_BYTES);
        Command::ContinueAsNew(Box::new(ContinueAsNew {
            workflow_type: None,
            queue: None,
            input,
            run_timeout: None,
            signals: (0..signals).map(|_| unread(large.clone())).collect(),
            headers: Headers::new(),
        }))
    }

    fn unread(input: Payload) -> SignalMessage {
        SignalMessage {
            name: "s".into(),
            input,
            headers: Headers::new(),
        }
    }

    fn large(size: usize) -> Payload {
        Payload::raw_json(std::vec![b'1'; size])
    }

    #[test]
    fn what_is_said_to_others_has_names() {
        let long = "x".repeat(limits::ID_BYTES + 1);
        for bad in ["", "a\nb", long.as_str()] {
            let null = Payload::null;
            let all = [
                child(bad, null()),
                signal(bad, "n", null()),
                signal("w", bad, null()),
                patch(bad),
                cancel(bad),
            ];
            for command in all {
                let why = check(&command).expect_err("it is no name");
                assert!(why.contains(command.name()), "{why}");
            }
        }
        assert_eq!(check(&child("c", Payload::null())), Ok(()));
    }

    #[test]
    fn a_payload_to_others_is_measured_and_inherited_signals_are_not() {
        let (most, more) = (limits::PAYLOAD_BYTES, limits::PAYLOAD_BYTES + 1);
        let made: [fn(Payload) -> Command; 3] = [
            |input| child("c", input),
            |input| signal("w", "n", input),
            |input| next(input, 3),
        ];
        let verdicts: Vec<_> = made
            .iter()
            .map(|make| (check(&make(large(most))), check(&make(large(more)))))
            .collect();
        for (fits, exceeds) in verdicts {
            assert_eq!(fits, Ok(()));
            assert!(exceeds.expect_err("too large").contains("2097153 bytes"));
        }
        assert_eq!(weight(&next(large(most), 3)), 4 * most);
    }
}
