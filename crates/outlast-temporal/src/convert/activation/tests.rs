//! Every job, and what it becomes.

use super::*;
use crate::proto::core::activity_result as ended;
use crate::proto::core::child_workflow as child;
use crate::proto::core::workflow_activation as wire;
use crate::proto::core::workflow_activation::WorkflowActivationJob;
use outlast_model::Payload;
use outlast_model::failure::TimeoutKind;
use outlast_model::headers::Headers;
use outlast_model::job::SignalMessage;

const RUN: &str = "0191f0c0-0000-7000-8000-000000000001";
const OTHER: &str = "0191f0c0-0000-7000-8000-000000000002";

fn polled_of(jobs: Vec<Variant>) -> Result<PolledWork, Unsupported> {
    let jobs = jobs
        .into_iter()
        .map(|job| WorkflowActivationJob { variant: Some(job) });
    let activation = WorkflowActivation {
        run_id: RUN.into(),
        history_length: 9,
        jobs: jobs.collect(),
        ..WorkflowActivation::default()
    };
    Ok(polled(activation, &QueueName::new("q"))?.work)
}

fn jobs(variants: Vec<Variant>) -> Vec<Job> {
    match polled_of(variants).expect("converts") {
        PolledWork::Activate(activation) => activation.jobs,
        other @ (PolledWork::Ask(_) | PolledWork::Evict { .. }) => panic!("{other:?}"),
    }
}

fn job(variant: Variant) -> Job {
    let mut jobs = jobs(vec![variant]);
    assert_eq!(jobs.len(), 1);
    jobs.remove(0)
}

fn start() -> wire::InitializeWorkflow {
    wire::InitializeWorkflow {
        workflow_type: "order".into(),
        workflow_id: "order-1".into(),
        first_execution_run_id: RUN.into(),
        original_execution_run_id: RUN.into(),
        ..wire::InitializeWorkflow::default()
    }
}

/// An activity's failure as the core wraps it.
fn wrapped(cause: &Failure) -> wire_failure::Failure {
    let outer = Failure::new(
        FailureKind::Activity {
            activity_type: "charge".into(),
            seq: Seq(1),
            retry_state: RetryState::MaximumAttemptsReached,
        },
        "activity failed",
    );
    failure::to_wire(&outer.caused_by(cause.clone()))
}

use crate::proto::failure as wire_failure;

#[test]
fn a_start_says_who_the_run_is() {
    let Job::Initialize(started) = job(Variant::InitializeWorkflow(start())) else {
        panic!("not a start");
    };
    assert_eq!(started.workflow_id.as_str(), "order-1");
    assert_eq!(started.run_id.to_string(), RUN);
    assert_eq!(started.queue.as_str(), "q");
    assert_eq!((started.first_run_id, started.continued_from), (None, None));
}

#[test]
fn a_start_says_which_rules_the_run_is_under() {
    let edition = |is_replaying, flags: &[u32]| {
        let variant = Some(Variant::InitializeWorkflow(start()));
        let wire = WorkflowActivation {
            run_id: RUN.into(),
            is_replaying,
            available_internal_flags: flags.to_vec(),
            jobs: vec![WorkflowActivationJob { variant }],
            ..WorkflowActivation::default()
        };
        match polled(wire, &QueueName::new("q")).expect("converts").work {
            PolledWork::Activate(activation) => match &activation.jobs[..] {
                [Job::Initialize(started)] => started.edition(),
                other => panic!("{other:?}"),
            },
            other @ (PolledWork::Ask(_) | PolledWork::Evict { .. }) => panic!("{other:?}"),
        }
    };
    assert_eq!(edition(false, &[]), Edition::NEWEST);
    assert_eq!(edition(true, &[]), Edition::FIRST);
    assert_eq!(edition(true, &[2]), Edition::SECOND);
}

#[test]
fn a_run_that_was_reset_draws_the_numbers_of_the_old_one() {
    let reset = wire::InitializeWorkflow {
        original_execution_run_id: OTHER.into(),
        randomness_seed: 7,
        ..start()
    };
    let jobs = jobs(vec![Variant::InitializeWorkflow(reset)]);
    assert_eq!(jobs[1], Job::UpdateRandomSeed { seed: 7 });
}

#[test]
fn messages_left_unread_come_behind_patches_and_before_new_ones() {
    let left: Vec<SignalMessage> = (0..3)
        .map(|n| SignalMessage {
            name: SignalName::new(format!("s{n}")),
            input: Payload::null(),
            headers: Headers::new(),
        })
        .collect();
    let start = wire::InitializeWorkflow {
        headers: headers::carry(&Headers::new(), &left),
        ..start()
    };
    let told = jobs(vec![
        Variant::InitializeWorkflow(start),
        Variant::NotifyHasPatch(wire::NotifyHasPatch {
            patch_id: "p".into(),
        }),
        Variant::SignalWorkflow(wire::SignalWorkflow {
            signal_name: "new".into(),
            ..wire::SignalWorkflow::default()
        }),
    ]);
    let names: Vec<String> = told
        .iter()
        .filter_map(|job| match job {
            Job::Signal { name, .. } => Some(name.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["s0", "s1", "s2", "new"]);
    assert!(matches!(told[1], Job::NotifyPatch { .. }));
}

#[test]
fn outcomes_of_activities_and_steps_lose_the_wrapping_of_the_core() {
    let cause = Failure::timeout(TimeoutKind::Heartbeat, None);
    let failed = |is_local| {
        let status = ended::activity_resolution::Status::Failed(ended::Failure {
            failure: Some(wrapped(&cause)),
            ..ended::Failure::default()
        });
        job(Variant::ResolveActivity(wire::ResolveActivity {
            seq: 3,
            result: Some(ended::ActivityResolution {
                status: Some(status),
            }),
            is_local,
        }))
    };
    let resolution = Resolution::Failed(cause.clone(), RetryState::MaximumAttemptsReached);
    let seq = Seq(3);
    assert_eq!(
        failed(false),
        Job::ResolveActivity {
            seq,
            resolution: resolution.clone()
        }
    );
    assert_eq!(failed(true), Job::ResolveStep { seq, resolution });
}

#[test]
fn a_cancelled_activity_keeps_what_it_had_to_say() {
    let details = Some(Payload::encode("half").expect("encodes"));
    let cause = Failure::new(
        FailureKind::Canceled {
            details: details.clone(),
        },
        "stopped",
    );
    let status = ended::activity_resolution::Status::Cancelled(ended::Cancellation {
        failure: Some(wrapped(&cause)),
    });
    let resolved = job(Variant::ResolveActivity(wire::ResolveActivity {
        seq: 1,
        result: Some(ended::ActivityResolution {
            status: Some(status),
        }),
        is_local: false,
    }));
    let resolution = Resolution::Canceled(details);
    assert_eq!(
        resolved,
        Job::ResolveActivity {
            seq: Seq(1),
            resolution
        }
    );
}

#[test]
fn children_start_fail_to_start_and_end() {
    let start = |status| {
        job(Variant::ResolveChildWorkflowExecutionStart(
            ResolveChildWorkflowExecutionStart {
                seq: 2,
                status: Some(status),
            },
        ))
    };
    use resolve_child_workflow_execution_start::Status;
    let seq = Seq(2);
    let run = OTHER.parse().expect("an id");
    assert_eq!(
        start(Status::Succeeded(
            wire::ResolveChildWorkflowExecutionStartSuccess {
                run_id: OTHER.into()
            }
        )),
        Job::ResolveChildStart {
            seq,
            result: ChildStart::Started(run)
        }
    );
    let cause = StartChildWorkflowExecutionFailedCause::WorkflowAlreadyExists;
    assert_eq!(
        start(Status::Failed(
            wire::ResolveChildWorkflowExecutionStartFailure {
                cause: cause.into(),
                ..Default::default()
            }
        )),
        Job::ResolveChildStart {
            seq,
            result: ChildStart::Failed(StartFailedCause::AlreadyExists)
        }
    );
    let resolution = Resolution::Canceled(None);
    assert_eq!(
        start(Status::Cancelled(Default::default())),
        Job::ResolveChild { seq, resolution }
    );
    let status = child::child_workflow_result::Status::Completed(child::Success { result: None });
    let done = job(Variant::ResolveChildWorkflowExecution(
        wire::ResolveChildWorkflowExecution {
            seq: 2,
            result: Some(ChildWorkflowResult {
                status: Some(status),
            }),
        },
    ));
    let resolution = Resolution::Completed(Payload::null());
    assert_eq!(done, Job::ResolveChild { seq, resolution });
}

#[test]
fn messages_to_others_arrive_or_do_not() {
    let cause = enums::SignalExternalWorkflowExecutionFailedCause::SignalCountLimitExceeded;
    let failure = || Some(wire_failure::Failure::default());
    assert_eq!(
        job(Variant::ResolveSignalExternalWorkflow(
            wire::ResolveSignalExternalWorkflow {
                seq: 1,
                failure: failure(),
                cause: cause.into()
            }
        )),
        Job::ResolveSignalExternal {
            seq: Seq(1),
            cause: Some(DeliveryFailedCause::HistoryFull)
        }
    );
    assert_eq!(
        job(Variant::ResolveRequestCancelExternalWorkflow(
            wire::ResolveRequestCancelExternalWorkflow {
                seq: 4,
                ..Default::default()
            }
        )),
        Job::ResolveCancelExternal {
            of: CancelOf::External(Seq(4)),
            cause: None
        }
    );
}

#[test]
fn questions_and_evictions_are_told_apart_from_news() {
    let question = Variant::QueryWorkflow(QueryWorkflow {
        query_id: "q1".into(),
        query_type: STACK_TRACE.into(),
        ..QueryWorkflow::default()
    });
    let Ok(PolledWork::Ask(asked)) = polled_of(vec![question]) else {
        panic!("not a question");
    };
    assert_eq!(asked[0].id, "q1");
    assert_eq!(asked[0].query.name.as_str(), builtin_query::STACK);
    let evict = Variant::RemoveFromCache(wire::RemoveFromCache::default());
    assert!(matches!(
        polled_of(vec![evict]),
        Ok(PolledWork::Evict { .. })
    ));
}

#[test]
fn what_cannot_be_is_named() {
    let nexus = Variant::ResolveNexusOperation(wire::ResolveNexusOperation::default());
    let error = polled_of(vec![nexus]).expect_err("not ours").to_string();
    assert!(error.contains("a Nexus operation"), "{error}");
}
