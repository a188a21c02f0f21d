//! Commands that only look: `ls`, `show`, `why`. They read beside a living owner and write
//! nothing.

mod json;
pub(crate) mod ls;
pub(crate) mod show;
pub(crate) mod text;
pub(crate) mod why;

use std::path::PathBuf;

use outlast::why::Around;
use outlast_model::Refusal;
use outlast_model::view::{RunRef, Summary};
use outlast_service::inspect::{Found, Inspector};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::stop::Stop;

/// How many runs are named when a text stands for several.
const EXAMPLES: usize = 5;

/// Which file.
#[derive(Debug, clap::Args)]
pub(crate) struct Place {
    /// The database file
    #[arg(
        long,
        value_name = "FILE",
        env = "OUTLAST_DB",
        default_value = "outlast-demo.db"
    )]
    db: PathBuf,
}

/// For whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
}

impl Place {
    fn open(&self) -> Result<Inspector, Stop> {
        Inspector::open(&self.db).map_err(|error| match Stop::from(error) {
            Stop::NotFound(text) => Stop::NotFound(format!(
                "{text}; `outlast demo` makes one, --db FILE names another"
            )),
            other @ (Stop::Failure(_) | Stop::Usage(_) | Stop::Refused(_) | Stop::Forced(_)) => {
                other
            }
        })
    }

    /// The run a person means.
    fn find(&self, inspector: &Inspector, run: &str) -> Result<RunRef, Stop> {
        let found = inspector.find(run).map_err(|refusal| self.named(refusal));
        match found? {
            Found::One(summary) => Ok(exactly(&summary)),
            Found::Several(runs) => {
                let name = |r: &Summary| format!("  {}  {}", r.workflow_id, r.run_id);
                let names: Vec<String> = runs.iter().take(EXAMPLES).map(name).collect();
                Err(Stop::Usage(format!(
                    "{run:?} is the beginning of several runs; say more of one:\n{}",
                    names.join("\n")
                )))
            }
        }
    }

    /// A run that is not there may be in another file.
    fn named(&self, refusal: Refusal) -> Stop {
        let Refusal::NotFound { what } = &refusal else {
            return refusal.into();
        };
        Stop::NotFound(format!(
            "no run for {what:?} in {0}: `outlast ls --db {0}` lists them, --db FILE names another \
             file [{1}]",
            self.db.display(),
            refusal.code()
        ))
    }

    /// Whether a process owns the file, as far as can be told: the last one that opened it has
    /// left its number beside it.
    fn around(&self) -> Around<'static> {
        let mut lock = self.db.clone().into_os_string();
        lock.push(".lock");
        let signed = std::fs::read_to_string(lock).unwrap_or_default();
        let owner = signed.trim().parse().ok().and_then(Pid::from_raw);
        match owner {
            Some(owner) if is_gone(owner) => Around::Nobody {
                last: u32::try_from(owner.as_raw_pid()).ok(),
            },
            Some(_) | None => Around::Elsewhere,
        }
    }

    /// The rest of a command line that means the same file.
    fn suffix(&self) -> String {
        format!("--db {}", self.db.display())
    }
}

/// Whether a process has ended. One that nobody has asked for its end yet still has its number.
fn is_gone(process: Pid) -> bool {
    if test_kill_process(process) == Err(Errno::SRCH) {
        return true;
    }
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name in brackets may hold anything; the state is what follows it.
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_some_and(|state| state.starts_with(['Z', 'X']))
}

fn exactly(summary: &Summary) -> RunRef {
    RunRef {
        workflow_id: summary.workflow_id.clone(),
        run_id: Some(summary.run_id),
    }
}
