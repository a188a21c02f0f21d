//! `outlast ls`: runs, newest first.

use outlast_model::Status;
use outlast_model::id::WorkflowType;
use outlast_model::view::{ListFilter, Summary};

use super::{Output, Place, json, text};
use crate::stop::Stop;
use crate::{clock, out};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    #[arg(long, value_name = "STATUS", value_parser = status,
          help = format!("Only runs that stand so: {}", names()))]
    status: Option<Status>,
    /// Only runs of this workflow
    #[arg(long = "type", value_name = "TYPE")]
    workflow_type: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> Result<(), Stop> {
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let filter = ListFilter {
        status: args.status,
        workflow_type: args.workflow_type.as_deref().map(WorkflowType::new),
        // One more, to know whether there are more.
        limit: limit.saturating_add(1),
        before: None,
    };
    let mut runs = args.place.open()?.list(&filter)?;
    let has_more = runs.len() > limit;
    runs.truncate(limit);
    match args.output {
        Output::Json => out::line(&json::print(&json::list(&runs))),
        Output::Table => out::line(&table(&runs)),
    }
    if has_more {
        out::error(&format!(
            "the newest {limit} of more: --limit N shows more, --status and --type choose"
        ));
    }
    Ok(())
}

fn status(name: &str) -> Result<Status, String> {
    let name = name.replace("canceled", "cancelled");
    let found = Status::ALL.into_iter().find(|s| s.name() == name);
    found.ok_or_else(|| format!("one of {}", names()))
}

fn names() -> String {
    let names: Vec<&str> = Status::ALL.iter().map(|s| s.name()).collect();
    names.join(", ")
}

fn table(runs: &[Summary]) -> String {
    if runs.is_empty() {
        return "no runs match".into();
    }
    let now = clock::wall();
    let ids = text::short_ids(runs);
    let mut rows =
        vec![["WORKFLOW", "RUN", "TYPE", "STATUS", "STARTED", "EVENTS"].map(str::to_owned)];
    for (run, id) in runs.iter().zip(ids) {
        let status = if run.is_blocked {
            "blocked".into()
        } else {
            run.status.to_string()
        };
        rows.push([
            run.workflow_id.to_string(),
            id,
            run.workflow_type.to_string(),
            status,
            text::ago(run.started, now),
            run.events.to_string(),
        ]);
    }
    text::columns(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_can_be_asked_for_by_its_name() {
        for known in Status::ALL {
            assert_eq!(status(known.name()), Ok(known));
        }
        assert_eq!(status("canceled"), Ok(Status::Canceled));
        assert!(status("asleep").is_err());
    }
}
