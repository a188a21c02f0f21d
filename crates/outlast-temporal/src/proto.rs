//! Short names of the protocol's messages: `core` is what the worker's core speaks with the
//! language side, everything else is the server's own API.

pub(crate) use temporalio_common::protos::coresdk as core;
pub(crate) use temporalio_common::protos::temporal::api::common::v1 as common;
pub(crate) use temporalio_common::protos::temporal::api::enums::v1 as enums;
pub(crate) use temporalio_common::protos::temporal::api::errordetails::v1 as errordetails;
pub(crate) use temporalio_common::protos::temporal::api::failure::v1 as failure;
pub(crate) use temporalio_common::protos::temporal::api::history::v1 as history;
pub(crate) use temporalio_common::protos::temporal::api::query::v1 as query;
pub(crate) use temporalio_common::protos::temporal::api::sdk::v1 as sdk;
pub(crate) use temporalio_common::protos::temporal::api::taskqueue::v1 as taskqueue;
pub(crate) use temporalio_common::protos::temporal::api::update::v1 as update;
pub(crate) use temporalio_common::protos::temporal::api::workflow::v1 as workflow;
pub(crate) use temporalio_common::protos::temporal::api::workflowservice::v1 as service;
