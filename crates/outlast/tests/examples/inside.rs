//! Each example once more, for the tests in it: as an example they would be built, never run.

#[path = "../../examples/cancellation_with_cleanup.rs"]
mod cancellation_with_cleanup;
#[path = "../../examples/fan_out_with_limit.rs"]
mod fan_out_with_limit;
#[path = "../../examples/handlers_outlive_main.rs"]
mod handlers_outlive_main;
#[path = "../../examples/human_approval.rs"]
mod human_approval;
#[path = "../../examples/interceptors.rs"]
mod interceptors;
#[path = "../../examples/saga.rs"]
mod saga;
#[path = "../../examples/select_with_timeout.rs"]
mod select_with_timeout;
#[path = "../../examples/signals_and_queries.rs"]
mod signals_and_queries;
#[path = "../../examples/subscription.rs"]
mod subscription;
#[path = "../../examples/updates_with_validation.rs"]
mod updates_with_validation;
