//! Every command, and what it becomes.

use super::*;
use outlast_model::event::Site;
use outlast_model::headers::Headers;
use outlast_model::options::ChildOptions;
use outlast_model::{Failure, Payload, Shared, WorkflowId};
use std::time::Duration;

fn wired(command: Command) -> Variant {
    let queue = QueueName::new("q");
    to_wire(
        command,
        &Home {
            namespace: "ns",
            queue: &queue,
        },
    )
}

#[test]
fn an_activity_without_limits_gets_the_default_one_and_the_runs_own_queue() {
    let activity = ScheduleActivity {
        seq: Seq(5),
        activity_type: "charge".into(),
        input: Payload::encode(&1).expect("encodes"),
        headers: Headers::new(),
        options: Shared::default(),
        site: Site::default(),
    };
    let Variant::ScheduleActivity(wire) = wired(Command::ScheduleActivity(Box::new(activity)))
    else {
        panic!("not an activity");
    };
    assert_eq!((wire.seq, wire.activity_id.as_str()), (5, "5"));
    assert_eq!(wire.task_queue, "q");
    let limit = time::duration(limits::START_TO_CLOSE_DEFAULT);
    assert_eq!(wire.start_to_close_timeout, Some(limit));
    assert!(wire.retry_policy.is_some());
}

#[test]
fn a_step_is_a_local_activity_that_the_core_waits_for() {
    let step = Command::ScheduleStep {
        seq: Seq(2),
        name: "fetch".into(),
        options: Box::default(),
        site: Site::default(),
    };
    let Variant::ScheduleLocalActivity(wire) = wired(step) else {
        panic!("not a step");
    };
    assert_eq!(
        (wire.activity_id.as_str(), wire.activity_type.as_str()),
        ("2", "fetch")
    );
    assert!(wire.schedule_to_close_timeout.is_some());
    assert_eq!(
        wire.local_retry_threshold,
        Some(time::duration(limits::DELAY))
    );
}

#[test]
fn a_child_lives_in_its_parents_namespace() {
    let child = StartChild {
        seq: Seq(1),
        workflow_id: "child-1".into(),
        workflow_type: "ship".into(),
        input: Payload::null(),
        headers: Headers::new(),
        options: ChildOptions {
            queue: Some("other".into()),
            run_timeout: Some(Duration::from_secs(9)),
            ..ChildOptions::default()
        },
        site: Site::default(),
    };
    let Variant::StartChildWorkflowExecution(wire) = wired(Command::StartChild(Box::new(child)))
    else {
        panic!("not a child");
    };
    assert_eq!(
        (wire.namespace.as_str(), wire.task_queue.as_str()),
        ("ns", "other")
    );
    assert!(wire.input.is_empty(), "no argument is no payload");
    let cancel = Command::CancelChild {
        seq: Seq(1),
        reason: "enough".into(),
        site: Site::default(),
    };
    assert!(matches!(
        wired(cancel),
        Variant::CancelChildWorkflowExecution(it) if it.child_workflow_seq == 1
    ));
}

#[test]
fn messages_to_others_name_the_run() {
    let target = RunRef::newest(WorkflowId::new("other"));
    let signal = SignalExternal {
        seq: Seq(3),
        target: target.clone(),
        name: "go".into(),
        input: Payload::null(),
        headers: Headers::new(),
        site: Site::default(),
    };
    let Variant::SignalExternalWorkflowExecution(wire) =
        wired(Command::SignalExternal(Box::new(signal)))
    else {
        panic!("not a message");
    };
    let expected = NamespacedWorkflowExecution {
        namespace: "ns".into(),
        workflow_id: "other".into(),
        run_id: String::new(),
    };
    let target_of = wire::signal_external_workflow_execution::Target::WorkflowExecution;
    assert_eq!(wire.target, Some(target_of(expected.clone())));
    let cancel = CancelExternal {
        seq: Seq(1),
        target,
        reason: "enough".into(),
        site: Site::default(),
    };
    assert!(matches!(
        wired(Command::CancelExternal(Box::new(cancel))),
        Variant::RequestCancelExternalWorkflowExecution(it)
            if it.workflow_execution == Some(expected)
    ));
}

#[test]
fn a_rejection_is_told_from_a_handlers_failure() {
    let rejected = |command| match wired(command) {
        Variant::UpdateResponse(wire::UpdateResponse {
            response: Some(wire::update_response::Response::Rejected(why)),
            ..
        }) => is_rejection(&why),
        other => panic!("{other:?}"),
    };
    let failure = Failure::application("No", "no");
    assert!(rejected(Command::RejectUpdate {
        id: "u".into(),
        failure: failure.clone()
    }));
    assert!(!rejected(Command::CompleteUpdate {
        id: "u".into(),
        outcome: UpdateOutcome::Failed(failure)
    }));
}

#[test]
fn the_ends_of_a_run() {
    let result = Payload::encode(&7).expect("encodes");
    assert!(matches!(
        wired(Command::CompleteWorkflow { result }),
        Variant::CompleteWorkflowExecution(it) if it.result.is_some()
    ));
    let failure = Failure::application("No", "no");
    assert!(matches!(
        wired(Command::FailWorkflow { failure }),
        Variant::FailWorkflowExecution(it) if it.failure.is_some()
    ));
    assert!(matches!(
        wired(Command::CancelWorkflow),
        Variant::CancelWorkflowExecution(_)
    ));
}

#[test]
fn timers_patches_and_cancels_keep_their_numbers() {
    let timer = Command::StartTimer {
        seq: Seq(8),
        delay: Duration::from_millis(1_500),
        site: Site::default(),
    };
    let delay = Some(time::duration(Duration::from_millis(1_500)));
    assert!(matches!(
        wired(timer),
        Variant::StartTimer(it) if it.seq == 8 && it.start_to_fire_timeout == delay
    ));
    assert!(matches!(
        wired(Command::CancelTimer { seq: Seq(8) }),
        Variant::CancelTimer(it) if it.seq == 8
    ));
    assert!(matches!(
        wired(Command::CancelStep { seq: Seq(2) }),
        Variant::RequestCancelLocalActivity(it) if it.seq == 2
    ));
    assert!(matches!(
        wired(Command::RequestCancelActivity { seq: Seq(2) }),
        Variant::RequestCancelActivity(it) if it.seq == 2
    ));
    let patch = Command::SetPatch {
        id: "p".into(),
        is_deprecated: true,
        site: Site::default(),
    };
    assert!(matches!(
        wired(patch),
        Variant::SetPatchMarker(it) if it.deprecated && it.patch_id == "p"
    ));
}

#[test]
fn answers_and_failures_of_a_task() {
    let queue = QueueName::new("q");
    let home = Home {
        namespace: "ns",
        queue: &queue,
    };
    use crate::proto::core::workflow_completion::workflow_activation_completion::Status;
    let answered = Completion::Queried(vec![("q1".into(), Ok(Payload::null()))]);
    let Some(Status::Successful(success)) = completion("r".into(), answered, &home).status else {
        panic!("not an answer");
    };
    assert!(matches!(
        &success.commands[0].variant,
        Some(Variant::RespondToQuery(it)) if it.query_id == "q1"
    ));
    let failed = Completion::Failed {
        cause: TaskFailedCause::NonDeterminism,
        failure: Failure::panic("differs"),
    };
    let Some(Status::Failed(failure)) = completion("r".into(), failed, &home).status else {
        panic!("not a failure");
    };
    let cause = enums::WorkflowTaskFailedCause::NonDeterministicError;
    assert_eq!(failure.force_cause(), cause);
    let evicted = completion("r".into(), Completion::Evicted, &home);
    assert!(matches!(evicted.status, Some(Status::Successful(it)) if it.commands.is_empty()));
}
