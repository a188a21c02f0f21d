//! `outlast config show`: every setting, its value, and where it was said.

use std::path::PathBuf;

use outlast::Settings;
use outlast::config::{Config, ConfigError, Origin};
use outlast::settings::{Scope, Setting, TABLE, check};
use outlast_model::QueueName;
use serde_json::{Value, json};

use crate::inspect::{Output, text};
use crate::out;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Every setting and its value, from the defaults, the file and the environment
    Show(Show),
}

#[derive(Debug, clap::Args)]
struct Show {
    /// Say where each value comes from
    #[arg(long)]
    origin: bool,
    /// Only settings of this task queue
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// A value that beats the file and the environment, as worker.activity_slots=20
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The file to read, instead of $OUTLAST_CONFIG or ./outlast.toml
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// One line of the answer.
struct Line {
    queue: Option<QueueName>,
    setting: &'static Setting,
    value: String,
    origin: Origin,
}

pub(crate) fn run(args: &Args) -> Result<(), Stop> {
    let What::Show(show) = &args.what;
    let config = load(show).map_err(|error| Stop::Usage(error.to_string()))?;
    let lines = lines(&config, show.queue.as_deref());
    match show.output {
        Output::Json => out::line(&Value::from_iter(lines.iter().map(as_json)).to_string()),
        Output::Table => out::line(&table(&lines, show.origin)),
    }
    judge(&config)
}

fn load(show: &Show) -> Result<Config, ConfigError> {
    let mut config = match &show.file {
        Some(path) => Config::new().file(path)?.env(std::env::vars())?,
        None => Config::load()?,
    };
    for assignment in &show.set {
        config = config.set(assignment)?;
    }
    Ok(config)
}

/// All settings of the application, and of each queue those that differ; or all of one queue.
fn lines(config: &Config, only: Option<&str>) -> Vec<Line> {
    let of_all = of_all(config);
    let nobody = QueueName::new("");
    let line = |queue: Option<&QueueName>, settings: &Settings, setting: &'static Setting| {
        let origin = config.origin(queue.unwrap_or(&nobody), setting.key);
        Line {
            queue: queue.cloned(),
            setting,
            value: (setting.show)(settings),
            origin: origin.cloned().unwrap_or(Origin::Default),
        }
    };
    if let Some(only) = only {
        let queue = QueueName::new(only);
        let settings = of_queue(config, &queue, &of_all);
        let own = TABLE.iter().filter(|s| s.scope == Scope::Queue);
        return own.map(|s| line(Some(&queue), &settings, s)).collect();
    }
    let mut lines: Vec<Line> = TABLE.iter().map(|s| line(None, &of_all, s)).collect();
    for queue in config.queues() {
        let settings = of_queue(config, &queue, &of_all);
        let own = TABLE
            .iter()
            .filter(|s| (s.show)(&settings) != (s.show)(&of_all));
        lines.extend(own.map(|s| line(Some(&queue), &settings, s)));
    }
    lines
}

fn of_all(config: &Config) -> Settings {
    let mut settings = Settings::default();
    config.apply(&mut settings);
    settings
}

fn of_queue(config: &Config, queue: &QueueName, of_all: &Settings) -> Settings {
    let mut settings = of_all.clone();
    config.apply_to(queue, &mut settings);
    settings
}

/// Values that can be read, and cannot work together.
fn judge(config: &Config) -> Result<(), Stop> {
    let of_all = of_all(config);
    let mut broken: Vec<String> = check(&of_all).iter().map(ToString::to_string).collect();
    for queue in config.queues() {
        let settings = of_queue(config, &queue, &of_all);
        let own = check(&settings).into_iter().map(|found| found.to_string());
        let new: Vec<String> = own.filter(|text| !broken.contains(text)).collect();
        broken.extend(new.into_iter().map(|text| format!("queue {queue}: {text}")));
    }
    if broken.is_empty() {
        return Ok(());
    }
    Err(Stop::Usage(broken.join("\n")))
}

fn key(line: &Line) -> String {
    match &line.queue {
        Some(queue) => format!("queue.{queue}.{}", line.setting.name()),
        None => line.setting.key.to_owned(),
    }
}

fn table(lines: &[Line], with_origin: bool) -> String {
    let mut rows = vec![["SETTING", "VALUE", "FROM"].map(str::to_owned)];
    for line in lines {
        rows.push([key(line), line.value.clone(), line.origin.to_string()]);
    }
    if with_origin {
        return text::columns(&rows);
    }
    let short = rows.into_iter().map(|[key, value, _]| [key, value]);
    text::columns(&short.collect::<Vec<[String; 2]>>())
}

fn as_json(line: &Line) -> Value {
    json!({
        "key": key(line),
        "queue": line.queue.as_ref().map(QueueName::as_str),
        "value": line.value,
        "default": line.setting.default_text(),
        "unit": line.setting.unit.name(),
        "origin": line.origin.to_string(),
        "doc": line.setting.doc.trim(),
    })
}
