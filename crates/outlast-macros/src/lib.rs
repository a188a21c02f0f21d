//! Turns a signature into a registration, nothing more.
//!
//! The attributes add metadata beside a function; they never change what its body does. The
//! trick that keeps the function a function: its identity (name, input, result, error) travels
//! in its return type, as a hidden marker type that implements a trait of the `outlast` crate.
//!
//! One file per attribute; `signature` holds the checks they share, `args` their options.

mod activity;
mod args;
mod failure;
mod handler;
mod signature;
mod test;
mod validator;
mod workflow_fn;
mod workflow_impl;

use proc_macro::TokenStream;
use quote::quote;
use syn::{DeriveInput, Error, Item, ItemFn, parse_macro_input};

/// Makes a function an activity: work with effects, run by a worker, retried, recorded once.
///
/// It takes extractors first (`ActivityCtx`, `State<T>`) and at most one input, last, and
/// returns a `Result`. An `async fn` runs on Tokio, a plain `fn` on a thread of its own.
///
/// Options: `name = ".."`, `start_to_close = "30s"`, `schedule_to_close`, `schedule_to_start`,
/// `heartbeat`, `queue = ".."`, `crate = path`.
#[proc_macro_attribute]
pub fn activity(attr: TokenStream, item: TokenStream) -> TokenStream {
    let args = parse_macro_input!(attr as args::ActivityArgs);
    let function = parse_macro_input!(item as ItemFn);
    // The function as written follows the error, so that its callers add none of their own.
    activity::expand(&args, &function)
        .unwrap_or_else(|error| {
            let error = error.to_compile_error();
            quote!(#error #function)
        })
        .into()
}

/// Makes an `async fn` or an `impl` block a workflow: code whose progress survives the process.
///
/// A function takes `ctx: Ctx` and at most one input. An `impl` block has a state (`Self`), a
/// main routine `async fn run(ctx: Ctx<Self>, ..)`, an optional `#[init]`, and handlers, which
/// also become methods of a generated handle:
///
/// - `#[signal] fn(&mut self, input)`, or `async fn(ctx: Ctx<Self>, input)` if it waits;
/// - `#[query] fn(&self, input) -> T`: it only reads;
/// - `#[update] fn(&mut self, input) -> T`, or `async fn(ctx: Ctx<Self>, input) -> T`, with
///   `#[validator(name)] fn(&self, input: &Input) -> Result<()>` that may turn it away.
///
/// Options: `name = ".."`, `crate = path`; of handlers: `name = ".."`, `dynamic` (takes every
/// name that no other handler has, and the content as it came), `unfinished = "finish"` (what
/// becomes of a waiting handler when `run` returns first: `"warn"`, `"abandon"` or `"finish"`).
#[proc_macro_attribute]
pub fn workflow(attr: TokenStream, item: TokenStream) -> TokenStream {
    let args = parse_macro_input!(attr as args::WorkflowArgs);
    let item = parse_macro_input!(item as Item);
    if let Item::Fn(function) = &item {
        return workflow_fn::expand(&args, function)
            .unwrap_or_else(|error| {
                let error = error.to_compile_error();
                quote!(#error #function)
            })
            .into();
    }
    if let Item::Impl(block) = &item {
        return workflow_impl::expand(&args, block)
            .unwrap_or_else(|error| error.to_compile_error())
            .into();
    }
    Error::new_spanned(
        &item,
        "#[workflow] goes on an `async fn` or on an `impl` block",
    )
    .to_compile_error()
    .into()
}

/// Derives `outlast::Failure` for an error type that is an error and (de)serialises.
///
/// `#[failure(terminal)]` (never retried) and `#[failure(retry_after = "5s")]` go on the type or
/// on a variant; `#[failure(name = "..")]` on the type changes its name in the history.
#[proc_macro_derive(Failure, attributes(failure))]
pub fn failure(item: TokenStream) -> TokenStream {
    let input = parse_macro_input!(item as DeriveInput);
    failure::expand(&input)
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}

/// A test of workflows with virtual time: `async fn name(env: TestEnv) -> Result<()>`.
#[proc_macro_attribute]
pub fn test(attr: TokenStream, item: TokenStream) -> TokenStream {
    let args = parse_macro_input!(attr as args::TestArgs);
    let function = parse_macro_input!(item as ItemFn);
    test::expand(&args, &function)
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}
