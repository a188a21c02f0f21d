//! `outlast why`: what keeps a run, and what would help.

use outlast::why::{Answer, damaged, reasons};
use outlast_model::Refusal;
use serde_json::json;

use super::{Output, Place, json};
use crate::stop::Stop;
use crate::{clock, out};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Workflow id, run id, or a beginning of one
    run: String,
    #[command(flatten)]
    place: Place,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> Result<(), Stop> {
    let inspector = args.place.open()?;
    let run = args.place.find(&inspector, &args.run)?;
    let db = args.place.suffix();
    let answers = match inspector.describe(&run) {
        Ok(description) => reasons(&description, &args.place.around(), clock::wall(), &db),
        Err(Refusal::Quarantined { reason, .. }) => vec![damaged(&reason, &db)],
        Err(refusal) => return Err(refusal.into()),
    };
    let id = run.workflow_id.as_str();
    match args.output {
        Output::Json => {
            let run_id = run.run_id.map(|id| id.to_string());
            let reasons: serde_json::Value = answers.iter().map(value).collect();
            let answer = json!({ "workflow_id": id, "run_id": run_id, "reasons": reasons });
            out::line(&json::print(&answer));
        }
        Output::Table => {
            for answer in &answers {
                out::line(&format!("{id}: {}\n  next: {}", answer.text, answer.next));
            }
        }
    }
    Ok(())
}

fn value(answer: &Answer) -> serde_json::Value {
    json!({ "reason": answer.reason.name(), "text": answer.text, "next": answer.next })
}
