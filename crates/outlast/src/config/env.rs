//! The environment: `OUTLAST_` and the key in capitals, with `_` for everything that is neither
//! letter nor digit. For one task queue: `OUTLAST_QUEUE_`, its name in the same way, `__`, the
//! name of the setting.

use outlast_worker::settings::TABLE;

use super::{For, Origin, Said};

const PREFIX: &str = "OUTLAST_";
const QUEUE: &str = "QUEUE_";

/// A name as it looks in the environment.
pub(super) fn name_of(name: &str) -> String {
    let letter = |c: char| match c.is_ascii_alphanumeric() {
        true => c.to_ascii_uppercase(),
        false => '_',
    };
    name.chars().map(letter).collect()
}

/// What these variables say of settings. One of our sections that has no such setting is said
/// all the same, so that a slip is found; other variables are not ours.
pub(super) fn read(variables: Vec<(String, String)>) -> Vec<Said> {
    let said = variables.into_iter().filter_map(|(variable, text)| {
        let (of, key) = key_of(variable.strip_prefix(PREFIX)?)?;
        let origin = Origin::Env(variable);
        Some(Said {
            of,
            key,
            text,
            origin,
        })
    });
    said.collect()
}

fn key_of(name: &str) -> Option<(For, String)> {
    if let Some(rest) = name.strip_prefix(QUEUE) {
        let (queue, setting) = rest.split_once("__")?;
        let key = format!("worker.{}", setting.to_lowercase());
        return Some((For::EnvQueue(queue.to_owned()), key));
    }
    let mut sections = TABLE.iter().map(|setting| setting.section());
    let section = sections.find(|section| {
        let rest = name.strip_prefix(&name_of(section));
        rest.is_some_and(|rest| rest.starts_with('_'))
    })?;
    let rest = name.get(section.len() + 1..)?;
    Some((For::All, format!("{section}.{}", rest.to_lowercase())))
}
