//! A file: `[worker]`, `[shutdown]`, `[zombies]` and one `[queue.NAME]` for each task queue that
//! differs. Every value keeps the number of its line.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{ConfigError, For, Origin, Problem, Said};

/// What a file says, in its sections.
pub(super) fn read(path: &Path, text: &str) -> Result<Vec<Said>, ConfigError> {
    let page = Page { path, text };
    let table = DeTable::parse(text).map_err(|error| Problem::Syntax {
        origin: page.origin(error.span().map_or(0, |span| span.start)),
        reason: error.message().trim().replace('\n', ", "),
    })?;
    let mut said = Vec::new();
    for (section, content) in table.get_ref() {
        let name = section.get_ref();
        match content.get_ref().as_table() {
            Some(settings) if name == "queue" => page.queues(settings, &mut said),
            Some(settings) => page.section(&For::All, name, settings, &mut said),
            // Outside of any section there is no setting: it is said as it stands, and not found.
            None => said.push(page.said(For::All, name.to_string(), content, section.span().start)),
        }
    }
    Ok(said)
}

struct Page<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Page<'_> {
    fn queues(&self, queues: &DeTable<'_>, said: &mut Vec<Said>) {
        for (queue, content) in queues {
            let name = queue.get_ref().to_string();
            match content.get_ref().as_table() {
                Some(settings) => {
                    self.section(&For::Queue(name), "worker", settings, said);
                }
                None => said.push(self.said(
                    For::All,
                    format!("queue.{name}"),
                    content,
                    queue.span().start,
                )),
            }
        }
    }

    fn section(&self, of: &For, section: &str, settings: &DeTable<'_>, said: &mut Vec<Said>) {
        for (name, value) in settings {
            let key = format!("{section}.{}", name.get_ref());
            said.push(self.said(of.clone(), key, value, name.span().start));
        }
    }

    fn said(&self, of: For, key: String, value: &Spanned<DeValue<'_>>, at: usize) -> Said {
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.as_str().to_owned(),
            DeValue::Float(number) => number.as_str().to_owned(),
            DeValue::Boolean(flag) => flag.to_string(),
            other @ (DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_)) => {
                format!("a {}", other.type_str())
            }
        };
        let origin = self.origin(at);
        Said {
            of,
            key,
            text,
            origin,
        }
    }

    fn origin(&self, at: usize) -> Origin {
        let before = self.text.get(..at).unwrap_or_default();
        Origin::File {
            path: self.path.to_path_buf(),
            line: before.matches('\n').count() + 1,
        }
    }
}
