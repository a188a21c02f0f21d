//! `outlast demo`: a shop that takes orders. Cards are declined, the bank does not answer, the
//! process may be killed: every order is carried through or put right again.
//!
//! What it does is in [`order`]; [`shop`] is the world around it; [`serve`] keeps it busy;
//! [`stuck`] puts code among it that does not come back.

mod order;
mod progress;
mod serve;
mod shop;
mod stuck;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use outlast::{Builder, Outlast};

use crate::chaos;
use crate::stop::Stop;

/// Where the demo keeps its runs unless told otherwise.
const FILE: &str = "outlast-demo.db";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The database file; it is made if it is not there
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// Where runs live instead: temporal://HOST:PORT/NAMESPACE
    #[arg(long, value_name = "URL", conflicts_with_all = ["db", "chaos", "stuck"])]
    store: Option<String>,
    /// Stop by itself after so many new orders
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// How many in a hundred attempts to charge a card fail and are tried again
    #[arg(long, value_name = "PERCENT", default_value_t = 20,
          value_parser = clap::value_parser!(u8).range(0..=95))]
    fail: u8,
    /// Say how it is at this address: /metrics, /health/live, /health/ready
    #[arg(long, value_name = "ADDRESS", conflicts_with = "chaos")]
    metrics: Option<SocketAddr>,
    /// Show what becomes of a workflow that blocks and an activity that does not stop
    #[arg(long, conflicts_with_all = ["chaos", "runs", "metrics"])]
    stuck: bool,
    /// Kill the worker process again and again, and judge what is left
    #[arg(long)]
    chaos: bool,
    /// With --chaos: how often
    #[arg(long, value_name = "K", requires = "chaos")]
    kills: Option<u64>,
    /// With --chaos: which moments; printed at the start of every run
    #[arg(long, value_name = "S", requires = "chaos")]
    seed: Option<u64>,
    /// With --chaos: a fault that the judge must find
    #[arg(long, value_name = "NAME", requires = "chaos", hide = true)]
    planted: Option<chaos::Planted>,
}

pub(crate) fn run(args: &Args) -> Result<(), Stop> {
    if args.chaos {
        return chaos::run(&chaos::Plan {
            db: args.db.clone(),
            runs: args.runs,
            kills: args.kills,
            seed: args.seed,
            fail: args.fail,
            planted: args.planted,
        });
    }
    let store = args.store();
    let runtime = tokio::runtime::Runtime::new()?;
    let served = if args.stuck {
        runtime.block_on(stuck::show(&args.file()))
    } else {
        runtime.block_on(serve::serve(&store, args))
    };
    // Whatever did not end in time must not hold up the process.
    runtime.shutdown_background();
    served
}

impl Args {
    fn store(&self) -> Store {
        match &self.store {
            Some(url) => Store::Url(url.clone()),
            None => Store::File(self.file()),
        }
    }

    fn file(&self) -> PathBuf {
        self.db.clone().unwrap_or_else(|| PathBuf::from(FILE))
    }
}

/// Where the demo keeps its runs.
enum Store {
    File(PathBuf),
    Url(String),
}

impl Store {
    fn open(&self) -> Builder {
        match self {
            Self::File(path) => Outlast::sqlite(path),
            Self::Url(url) => Outlast::connect(url),
        }
    }

    /// How to look at what the demo did.
    fn look_further(&self) -> String {
        match self {
            Self::File(path) => {
                let db = path.display();
                format!("outlast ls --db {db}; outlast show order-1 --db {db}")
            }
            Self::Url(_) => "temporal workflow list; temporal workflow show -w order-1".into(),
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            // Its options are nobody's business: an API key may be among them.
            Self::Url(url) => f.write_str(url.split('?').next().unwrap_or_default()),
        }
    }
}
