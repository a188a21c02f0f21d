//! The binary `outlast`: try it, look into it, measure it.
//!
//! Thin on purpose: every command is a module, every rule lives in the library. Exit codes are
//! part of the contract, see [`stop`].

mod bench;
mod chaos;
mod clock;
mod config;
mod culprit;
mod deaf;
mod demo;
mod inspect;
mod listen;
mod lot;
mod out;
mod stop;
mod usage;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use stop::Stop;

/// What one thread makes another frees, attempt by attempt. glibc takes a lock for that, and threads
/// sleep in line for it: see decision 16.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Durable execution for Rust: workflows that outlast the process.
#[derive(Debug, Parser)]
#[command(name = "outlast", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Take orders, some with trouble, on a file that survives kill -9
    Demo(demo::Args),
    /// List runs, newest first
    Ls(inspect::ls::Args),
    /// Show one run: where it stands, what it waits for, its history
    Show(inspect::show::Args),
    /// Say why a run does not move, and what would help
    Why(inspect::why::Args),
    /// Show settings and where they come from
    Config(config::Args),
    /// Measure against a bare log on the same disk
    Bench(bench::Args),
    /// The process that a chaos run kills
    #[command(hide = true)]
    ChaosWorker(chaos::worker::Args),
    /// The process that a chaos run believes
    #[command(hide = true)]
    ChaosLedger(chaos::ledger::Args),
    /// The process that a test finds unable to stop
    #[command(hide = true)]
    DeafWorker(deaf::Args),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            out::error(&format!("outlast: {stop}"));
            stop.code()
        }
    }
}

fn run(command: Command) -> Result<(), Stop> {
    match command {
        Command::Demo(args) => demo::run(&args),
        Command::Ls(args) => inspect::ls::run(&args),
        Command::Show(args) => inspect::show::run(&args),
        Command::Why(args) => inspect::why::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::ChaosWorker(args) => chaos::worker::run(&args),
        Command::ChaosLedger(args) => chaos::ledger::run(&args),
        Command::DeafWorker(args) => deaf::run(&args),
    }
}
