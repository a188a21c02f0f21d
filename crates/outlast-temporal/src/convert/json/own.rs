//! Events of a run itself: its life, its workflow tasks, timers, markers and activities.

use super::NotHistory;
use super::fields::Fields;
use crate::proto::enums::{
    ContinueAsNewInitiator, RetryState, TimeoutType, WorkflowTaskFailedCause,
};
use crate::proto::history as wire;
use crate::proto::history::history_event::Attributes;
use crate::proto::sdk::WorkflowTaskCompletedMetadata;

type Read<T> = Result<T, NotHistory>;

/// What an event says; `None` if its kind is not one of these.
pub(super) fn read(name: &str, it: &mut Fields) -> Read<Option<Attributes>> {
    use Attributes as A;
    Ok(Some(match name {
        "workflowExecutionStarted" => A::WorkflowExecutionStartedEventAttributes(started(it)?),
        "workflowTaskScheduled" => A::WorkflowTaskScheduledEventAttributes(task_scheduled(it)?),
        "workflowTaskStarted" => A::WorkflowTaskStartedEventAttributes(task_started(it)?),
        "workflowTaskCompleted" => A::WorkflowTaskCompletedEventAttributes(task_completed(it)?),
        "workflowTaskFailed" => A::WorkflowTaskFailedEventAttributes(task_failed(it)?),
        "workflowTaskTimedOut" => A::WorkflowTaskTimedOutEventAttributes(task_timed_out(it)?),
        "markerRecorded" => A::MarkerRecordedEventAttributes(marker(it)?),
        "upsertWorkflowSearchAttributes" => {
            A::UpsertWorkflowSearchAttributesEventAttributes(attributes_upserted(it)?)
        }
        "workflowPropertiesModified" => {
            A::WorkflowPropertiesModifiedEventAttributes(properties_modified(it)?)
        }
        _ => match (closed(name, it)?, timer(name, it)?) {
            (Some(read), _) | (None, Some(read)) => read,
            (None, None) => return activity(name, it),
        },
    }))
}

fn started(it: &mut Fields) -> Read<wire::WorkflowExecutionStartedEventAttributes> {
    Ok(wire::WorkflowExecutionStartedEventAttributes {
        workflow_type: it.message("workflowType")?,
        workflow_id: it.text("workflowId")?,
        parent_workflow_namespace: it.text("parentWorkflowNamespace")?,
        parent_workflow_execution: it.message("parentWorkflowExecution")?,
        parent_initiated_event_id: it.number("parentInitiatedEventId")?,
        root_workflow_execution: it.message("rootWorkflowExecution")?,
        task_queue: it.queue("taskQueue")?,
        input: it.message("input")?,
        header: it.message("header")?,
        workflow_execution_timeout: it.message("workflowExecutionTimeout")?,
        workflow_run_timeout: it.message("workflowRunTimeout")?,
        workflow_task_timeout: it.message("workflowTaskTimeout")?,
        continued_execution_run_id: it.text("continuedExecutionRunId")?,
        initiator: it.choice::<ContinueAsNewInitiator>("initiator")?,
        continued_failure: it.message("continuedFailure")?,
        last_completion_result: it.message("lastCompletionResult")?,
        original_execution_run_id: it.text("originalExecutionRunId")?,
        first_execution_run_id: it.text("firstExecutionRunId")?,
        retry_policy: it.message("retryPolicy")?,
        attempt: it.plain("attempt")?,
        cron_schedule: it.text("cronSchedule")?,
        memo: it.message("memo")?,
        search_attributes: it.message("searchAttributes")?,
        priority: it.message("priority")?,
        ..wire::WorkflowExecutionStartedEventAttributes::default()
    })
}

/// How a run ended, or was told to.
fn closed(name: &str, it: &mut Fields) -> Read<Option<Attributes>> {
    use Attributes as A;
    Ok(Some(match name {
        "workflowExecutionCompleted" => A::WorkflowExecutionCompletedEventAttributes(
            wire::WorkflowExecutionCompletedEventAttributes {
                result: it.message("result")?,
                workflow_task_completed_event_id: it.number("workflowTaskCompletedEventId")?,
                new_execution_run_id: it.text("newExecutionRunId")?,
            },
        ),
        "workflowExecutionFailed" => A::WorkflowExecutionFailedEventAttributes(
            wire::WorkflowExecutionFailedEventAttributes {
                failure: it.message("failure")?,
                retry_state: it.choice::<RetryState>("retryState")?,
                workflow_task_completed_event_id: it.number("workflowTaskCompletedEventId")?,
                new_execution_run_id: it.text("newExecutionRunId")?,
            },
        ),
        "workflowExecutionTimedOut" => A::WorkflowExecutionTimedOutEventAttributes(
            wire::WorkflowExecutionTimedOutEventAttributes {
                retry_state: it.choice::<RetryState>("retryState")?,
                new_execution_run_id: it.text("newExecutionRunId")?,
            },
        ),
        "workflowExecutionTerminated" => A::WorkflowExecutionTerminatedEventAttributes(
            wire::WorkflowExecutionTerminatedEventAttributes {
                reason: it.text("reason")?,
                details: it.message("details")?,
                identity: it.text("identity")?,
            },
        ),
        "workflowExecutionCanceled" => A::WorkflowExecutionCanceledEventAttributes(
            wire::WorkflowExecutionCanceledEventAttributes {
                details: it.message("details")?,
                workflow_task_completed_event_id: it.number("workflowTaskCompletedEventId")?,
            },
        ),
        "workflowExecutionContinuedAsNew" => {
            A::WorkflowExecutionContinuedAsNewEventAttributes(continued_as_new(it)?)
        }
        _ => return Ok(None),
    }))
}

fn continued_as_new(it: &mut Fields) -> Read<wire::WorkflowExecutionContinuedAsNewEventAttributes> {
    Ok(wire::WorkflowExecutionContinuedAsNewEventAttributes {
        new_execution_run_id: it.text("newExecutionRunId")?,
        workflow_type: it.message("workflowType")?,
        task_queue: it.queue("taskQueue")?,
        input: it.message("input")?,
        header: it.message("header")?,
        workflow_run_timeout: it.message("workflowRunTimeout")?,
        workflow_task_timeout: it.message("workflowTaskTimeout")?,
        workflow_task_completed_event_id: it.number("workflowTaskCompletedEventId")?,
        backoff_start_interval: it.message("backoffStartInterval")?,
        initiator: it.choice::<ContinueAsNewInitiator>("initiator")?,
        memo: it.message("memo")?,
        search_attributes: it.message("searchAttributes")?,
        ..wire::WorkflowExecutionContinuedAsNewEventAttributes::default()
    })
}

fn task_scheduled(it: &mut Fields) -> Read<wire::WorkflowTaskScheduledEventAttributes> {
    Ok(wire::WorkflowTaskScheduledEventAttributes {
        task_queue: it.queue("taskQueue")?,
        start_to_close_timeout: it.message("startToCloseTimeout")?,
        attempt: it.plain("attempt")?,
    })
}

fn task_started(it: &mut Fields) -> Read<wire::WorkflowTaskStartedEventAttributes> {
    Ok(wire::WorkflowTaskStartedEventAttributes {
        scheduled_event_id: it.number("scheduledEventId")?,
        suggest_continue_as_new: it.plain("suggestContinueAsNew")?,
        history_size_bytes: it.number("historySizeBytes")?,
        ..wire::WorkflowTaskStartedEventAttributes::default()
    })
}

fn task_completed(it: &mut Fields) -> Read<wire::WorkflowTaskCompletedEventAttributes> {
    let sdk_metadata = match it.object("sdkMetadata")? {
        None => None,
        Some(mut metadata) => Some(WorkflowTaskCompletedMetadata {
            core_used_flags: metadata.plain("coreUsedFlags")?,
            lang_used_flags: metadata.plain("langUsedFlags")?,
            sdk_name: metadata.text("sdkName")?,
            sdk_version: metadata.text("sdkVersion")?,
        }),
    };
    Ok(wire::WorkflowTaskCompletedEventAttributes {
        scheduled_event_id: it.number("scheduledEventId")?,
        started_event_id: it.number("startedEventId")?,
        sdk_metadata,
        ..wire::WorkflowTaskCompletedEventAttributes::default()
    })
}

fn task_failed(it: &mut Fields) -> Read<wire::WorkflowTaskFailedEventAttributes> {
    Ok(wire::WorkflowTaskFailedEventAttributes {
        scheduled_event_id: it.number("scheduledEventId")?,
        started_event_id: it.number("startedEventId")?,
        cause: it.choice::<WorkflowTaskFailedCause>("cause")?,
        failure: it.message("failure")?,
        base_run_id: it.text("baseRunId")?,
        new_run_id: it.text("newRunId")?,
        ..wire::WorkflowTaskFailedEventAttributes::default()
    })
}

fn task_timed_out(it: &mut Fields) -> Read<wire::WorkflowTaskTimedOutEventAttributes> {
    Ok(wire::WorkflowTaskTimedOutEventAttributes {
        scheduled_event_id: it.number("scheduledEventId")?,
        started_event_id: it.number("startedEventId")?,
        timeout_type: it.choice::<TimeoutType>("timeoutType")?,
    })
}

fn marker(it: &mut Fields) -> Read<wire::MarkerRecordedEventAttributes> {
    Ok(wire::MarkerRecordedEventAttributes {
        marker_name: it.text("markerName")?,
        details: it.plain("details")?,
        workflow_task_completed_event_id: it.number("workflowTaskCompletedEventId")?,
        header: it.message("header")?,
        failure: it.message("failure")?,
    })
}

fn attributes_upserted(
    it: &mut Fields,
) -> Read<wire::UpsertWorkflowSearchAttributesEventAttributes> {
    Ok(wire::UpsertWorkflowSearchAttributesEventAttributes {
        workflow_task_completed_event_id: it.number("workflowTaskCompletedEventId")?,
        search_attributes: it.message("searchAttributes")?,
    })
}

fn properties_modified(it: &mut Fields) -> Read<wire::WorkflowPropertiesModifiedEventAttributes> {
    Ok(wire::WorkflowPropertiesModifiedEventAttributes {
        workflow_task_completed_event_id: it.number("workflowTaskCompletedEventId")?,
        upserted_memo: it.message("upsertedMemo")?,
    })
}

fn timer(name: &str, it: &mut Fields) -> Read<Option<Attributes>> {
    use Attributes as A;
    Ok(Some(match name {
        "timerStarted" => A::TimerStartedEventAttributes(wire::TimerStartedEventAttributes {
            timer_id: it.text("timerId")?,
            start_to_fire_timeout: it.message("startToFireTimeout")?,
            workflow_task_completed_event_id: it.number("workflowTaskCompletedEventId")?,
        }),
        "timerFired" => A::TimerFiredEventAttributes(wire::TimerFiredEventAttributes {
            timer_id: it.text("timerId")?,
            started_event_id: it.number("startedEventId")?,
        }),
        "timerCanceled" => A::TimerCanceledEventAttributes(wire::TimerCanceledEventAttributes {
            timer_id: it.text("timerId")?,
            started_event_id: it.number("startedEventId")?,
            workflow_task_completed_event_id: it.number("workflowTaskCompletedEventId")?,
            identity: it.text("identity")?,
        }),
        _ => return Ok(None),
    }))
}

fn activity(name: &str, it: &mut Fields) -> Read<Option<Attributes>> {
    use Attributes as A;
    Ok(Some(match name {
        "activityTaskScheduled" => A::ActivityTaskScheduledEventAttributes(activity_scheduled(it)?),
        "activityTaskStarted" => A::ActivityTaskStartedEventAttributes(activity_started(it)?),
        "activityTaskCancelRequested" => A::ActivityTaskCancelRequestedEventAttributes(
            wire::ActivityTaskCancelRequestedEventAttributes {
                scheduled_event_id: it.number("scheduledEventId")?,
                workflow_task_completed_event_id: it.number("workflowTaskCompletedEventId")?,
            },
        ),
        _ => return activity_ended(name, it),
    }))
}

fn activity_scheduled(it: &mut Fields) -> Read<wire::ActivityTaskScheduledEventAttributes> {
    Ok(wire::ActivityTaskScheduledEventAttributes {
        activity_id: it.text("activityId")?,
        activity_type: it.message("activityType")?,
        task_queue: it.queue("taskQueue")?,
        header: it.message("header")?,
        input: it.message("input")?,
        schedule_to_close_timeout: it.message("scheduleToCloseTimeout")?,
        schedule_to_start_timeout: it.message("scheduleToStartTimeout")?,
        start_to_close_timeout: it.message("startToCloseTimeout")?,
        heartbeat_timeout: it.message("heartbeatTimeout")?,
        workflow_task_completed_event_id: it.number("workflowTaskCompletedEventId")?,
        retry_policy: it.message("retryPolicy")?,
        priority: it.message("priority")?,
        ..wire::ActivityTaskScheduledEventAttributes::default()
    })
}

fn activity_started(it: &mut Fields) -> Read<wire::ActivityTaskStartedEventAttributes> {
    Ok(wire::ActivityTaskStartedEventAttributes {
        scheduled_event_id: it.number("scheduledEventId")?,
        identity: it.text("identity")?,
        request_id: it.text("requestId")?,
        attempt: it.plain("attempt")?,
        last_failure: it.message("lastFailure")?,
        ..wire::ActivityTaskStartedEventAttributes::default()
    })
}

fn activity_ended(name: &str, it: &mut Fields) -> Read<Option<Attributes>> {
    use Attributes as A;
    Ok(Some(match name {
        "activityTaskCompleted" => {
            A::ActivityTaskCompletedEventAttributes(wire::ActivityTaskCompletedEventAttributes {
                result: it.message("result")?,
                scheduled_event_id: it.number("scheduledEventId")?,
                started_event_id: it.number("startedEventId")?,
                ..wire::ActivityTaskCompletedEventAttributes::default()
            })
        }
        "activityTaskFailed" => {
            A::ActivityTaskFailedEventAttributes(wire::ActivityTaskFailedEventAttributes {
                failure: it.message("failure")?,
                scheduled_event_id: it.number("scheduledEventId")?,
                started_event_id: it.number("startedEventId")?,
                retry_state: it.choice::<RetryState>("retryState")?,
                ..wire::ActivityTaskFailedEventAttributes::default()
            })
        }
        "activityTaskTimedOut" => {
            A::ActivityTaskTimedOutEventAttributes(wire::ActivityTaskTimedOutEventAttributes {
                failure: it.message("failure")?,
                scheduled_event_id: it.number("scheduledEventId")?,
                started_event_id: it.number("startedEventId")?,
                retry_state: it.choice::<RetryState>("retryState")?,
            })
        }
        "activityTaskCanceled" => {
            A::ActivityTaskCanceledEventAttributes(wire::ActivityTaskCanceledEventAttributes {
                details: it.message("details")?,
                latest_cancel_requested_event_id: it.number("latestCancelRequestedEventId")?,
                scheduled_event_id: it.number("scheduledEventId")?,
                started_event_id: it.number("startedEventId")?,
                ..wire::ActivityTaskCanceledEventAttributes::default()
            })
        }
        _ => return Ok(None),
    }))
}
