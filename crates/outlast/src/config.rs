//! Settings from outside the program: a file, the environment, a command line.
//!
//! All of them speak of the one table of settings, `outlast_worker::settings`, by its keys. Later
//! beats earlier: code, then the file, then the environment, then the command line; and what is
//! said of one task queue beats what is said of all, wherever it was said. Everything that is
//! wrong is found at once, and each finding names the key, where it was said, and what to do.

mod env;
mod error;
#[cfg(feature = "config")]
mod file;

use std::fmt;
use std::path::{Path, PathBuf};

use outlast_model::QueueName;
use outlast_worker::Settings;
use outlast_worker::settings::{Scope, Setting, TABLE, find};

pub use error::{ConfigError, Problem};

/// The variable that names the file.
const FILE_VARIABLE: &str = "OUTLAST_CONFIG";
/// The file that is read if it is there.
const USUAL_FILE: &str = "outlast.toml";

/// Where the value of a setting was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere: it is the default.
    Default,
    /// In the program.
    Code,
    /// In a file.
    File {
        /// Which.
        path: PathBuf,
        /// In which line, counted from 1.
        line: usize,
    },
    /// In the environment, by this variable.
    Env(String),
    /// On the command line.
    CommandLine,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Code => f.write_str("code"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Env(variable) => write!(f, "${variable}"),
            Self::CommandLine => f.write_str("command line"),
        }
    }
}

/// For whom a value was said.
#[derive(Clone, Debug, PartialEq, Eq)]
enum For {
    All,
    /// The queue of this name.
    Queue(String),
    /// The queue whose name looks like this in the environment.
    EnvQueue(String),
}

impl For {
    fn is(&self, queue: &QueueName) -> bool {
        match self {
            Self::All => false,
            Self::Queue(name) => name == queue.as_str(),
            Self::EnvQueue(name) => *name == env::name_of(queue.as_str()),
        }
    }
}

#[derive(Clone, Debug)]
struct Given {
    of: For,
    setting: &'static Setting,
    text: String,
    origin: Origin,
}

/// Values of settings and where they were said, in the order of their weight.
#[derive(Clone, Debug, Default)]
pub struct Config {
    given: Vec<Given>,
}

impl Config {
    /// Nothing said yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the file and the environment say. The file is the one that `OUTLAST_CONFIG` names, or
    /// `outlast.toml` in the current directory if there is one.
    ///
    /// # Errors
    /// All that is wrong with them.
    pub fn load() -> Result<Self, ConfigError> {
        let variables: Vec<(String, String)> = std::env::vars().collect();
        let named = variables.iter().find(|(name, _)| name == FILE_VARIABLE);
        let file = match named {
            Some((_, path)) => Some(PathBuf::from(path)),
            None => Some(PathBuf::from(USUAL_FILE)).filter(|path| path.exists()),
        };
        let config = match file {
            Some(path) => Self::new().file(&path)?,
            None => Self::new(),
        };
        config.env(variables)
    }

    /// What a file says, in addition.
    ///
    /// # Errors
    /// It cannot be read, is no TOML, or says what no setting understands.
    #[cfg(feature = "config")]
    pub fn file(self, path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| Problem::Unreadable {
            path: path.to_path_buf(),
            reason: error.to_string(),
        })?;
        self.toml(path, &text)
    }

    /// What a file says, in addition: not in this build.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "config"))]
    pub fn file(self, path: &Path) -> Result<Self, ConfigError> {
        let reason = "this build reads no files; turn on the feature \"config\"".into();
        let path = path.to_path_buf();
        Err(Problem::Unreadable { path, reason }.into())
    }

    /// What the text of a file says, in addition.
    ///
    /// # Errors
    /// It is no TOML, or says what no setting understands.
    #[cfg(feature = "config")]
    pub fn toml(mut self, path: &Path, text: &str) -> Result<Self, ConfigError> {
        let mut problems = Vec::new();
        for said in file::read(path, text)? {
            self.say(said, &mut problems);
        }
        self.or(problems)
    }

    /// What these variables say, in addition: `OUTLAST_WORKER_ACTIVITY_SLOTS=20`, for one queue
    /// `OUTLAST_QUEUE_GPU__ACTIVITY_SLOTS=4`. Others are left alone.
    ///
    /// # Errors
    /// They say what no setting understands.
    pub fn env(
        mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut variables: Vec<(String, String)> = variables.into_iter().collect();
        variables.sort();
        let mut problems = Vec::new();
        for said in env::read(variables) {
            self.say(said, &mut problems);
        }
        self.or(problems)
    }

    /// What a command line says, in addition: `worker.activity_slots=20`, for one queue
    /// `queue.gpu.activity_slots=4`.
    ///
    /// # Errors
    /// It says what no setting understands.
    pub fn set(mut self, assignment: &str) -> Result<Self, ConfigError> {
        let Some((key, text)) = assignment.split_once('=') else {
            let text = assignment.to_owned();
            return Err(Problem::NoValue { text }.into());
        };
        let key = key.trim();
        let (of, key) = match key
            .strip_prefix("queue.")
            .and_then(|of| of.rsplit_once('.'))
        {
            Some((queue, name)) => (For::Queue(queue.to_owned()), format!("worker.{name}")),
            None => (For::All, key.to_owned()),
        };
        let said = Said {
            of,
            key,
            text: text.trim().to_owned(),
            origin: Origin::CommandLine,
        };
        let mut problems = Vec::new();
        self.say(said, &mut problems);
        self.or(problems)
    }

    /// Task queues of which something was said by name.
    pub fn queues(&self) -> Vec<QueueName> {
        let names = self.given.iter().filter_map(|given| match &given.of {
            For::Queue(name) => Some(name.clone()),
            For::EnvQueue(name) => Some(name.to_lowercase()),
            For::All => None,
        });
        let mut names: Vec<String> = names.collect();
        names.sort();
        names.dedup_by(|a, b| env::name_of(a) == env::name_of(b));
        names.into_iter().map(QueueName::new).collect()
    }

    /// Changes settings as it says of all.
    pub fn apply(&self, settings: &mut Settings) {
        self.change(settings, |of| *of == For::All);
    }

    /// Changes settings of a task queue as it says of that queue.
    pub fn apply_to(&self, queue: &QueueName, settings: &mut Settings) {
        self.change(settings, |of| of.is(queue));
    }

    /// Where the value of a setting of a queue was said, if it was said here.
    pub fn origin(&self, queue: &QueueName, key: &str) -> Option<&Origin> {
        let of_queue = self.last(key, |of| of.is(queue));
        of_queue.or_else(|| self.last(key, |of| *of == For::All))
    }

    fn last(&self, key: &str, is_for: impl Fn(&For) -> bool) -> Option<&Origin> {
        let mut given = self.given.iter().rev();
        let last = given.find(|given| given.setting.key == key && is_for(&given.of));
        last.map(|given| &given.origin)
    }

    fn change(&self, settings: &mut Settings, is_for: impl Fn(&For) -> bool) {
        for given in self.given.iter().filter(|given| is_for(&given.of)) {
            // It was read before, when it was said.
            drop((given.setting.read)(settings, &given.text));
        }
    }

    fn say(&mut self, said: Said, problems: &mut Vec<Problem>) {
        let Said {
            of,
            key,
            text,
            origin,
        } = said;
        let Some(setting) = find(&key) else {
            let known = TABLE.iter().map(|setting| setting.key);
            let near = outlast_model::near::nearest(&key, known);
            return problems.push(Problem::UnknownKey { key, origin, near });
        };
        if of != For::All && setting.scope == Scope::Application {
            let key = setting.key;
            return problems.push(Problem::NotOfAQueue { key, origin });
        }
        match (setting.read)(&mut Settings::default(), &text) {
            Ok(()) => self.given.push(Given {
                of,
                setting,
                text,
                origin,
            }),
            Err(wrong) => problems.push(Problem::WrongValue {
                key: setting.key,
                wrong,
                origin,
            }),
        }
    }

    fn or(self, problems: Vec<Problem>) -> Result<Self, ConfigError> {
        match problems.is_empty() {
            true => Ok(self),
            false => Err(ConfigError { problems }),
        }
    }
}

/// One line of a file, one variable, one word of a command line.
struct Said {
    of: For,
    /// Section and name.
    key: String,
    text: String,
    origin: Origin,
}

#[cfg(test)]
mod tests;
