//! The fields of one JSON object, by the rules of proto3 JSON: what is absent or null has no
//! value, 64-bit numbers may be strings, enums are names.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::NotHistory;
use crate::proto::enums::TaskQueueKind;
use crate::proto::taskqueue::TaskQueue;

/// The end of the name of the one field that holds what an event says.
const ATTRIBUTES: &str = "EventAttributes";

pub(super) struct Fields(Map<String, Value>);

impl Fields {
    pub(super) fn of(what: &str, value: Value) -> Result<Self, NotHistory> {
        match value {
            Value::Object(fields) => Ok(Self(fields)),
            _ => Err(NotHistory(format!("{what} is not an object"))),
        }
    }

    /// What an event says, with the name of its kind.
    pub(super) fn attributes(&mut self) -> Result<(String, Self), NotHistory> {
        let key = self.0.keys().find(|key| key.ends_with(ATTRIBUTES)).cloned();
        let key = key.ok_or_else(|| NotHistory("it has no attributes".into()))?;
        let value = self.0.remove(&key).unwrap_or_default();
        let name = key.trim_end_matches(ATTRIBUTES).to_owned();
        Ok((name, Self::of(&key, value)?))
    }

    fn take(&mut self, key: &str) -> Option<Value> {
        self.0.remove(key).filter(|value| !value.is_null())
    }

    /// A message, or anything else that says how it is read.
    pub(super) fn message<T: DeserializeOwned>(
        &mut self,
        key: &str,
    ) -> Result<Option<T>, NotHistory> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        let read = serde_json::from_value(value);
        read.map(Some)
            .map_err(|error| NotHistory(format!("{key}: {error}")))
    }

    /// A value that is its type's default where it is absent.
    pub(super) fn plain<T: DeserializeOwned + Default>(
        &mut self,
        key: &str,
    ) -> Result<T, NotHistory> {
        Ok(self.message(key)?.unwrap_or_default())
    }

    pub(super) fn text(&mut self, key: &str) -> Result<String, NotHistory> {
        self.plain(key)
    }

    pub(super) fn number(&mut self, key: &str) -> Result<i64, NotHistory> {
        match self.take(key) {
            None => Ok(0),
            Some(Value::String(digits)) => digits
                .parse()
                .map_err(|_| NotHistory(format!("{key}: {digits:?} is not a number"))),
            Some(value) => value
                .as_i64()
                .ok_or_else(|| NotHistory(format!("{key}: {value} is not a number"))),
        }
    }

    /// An enum, as the messages hold it.
    pub(super) fn choice<T: DeserializeOwned + Default + Into<i32>>(
        &mut self,
        key: &str,
    ) -> Result<i32, NotHistory> {
        Ok(self.plain::<T>(key)?.into())
    }

    pub(super) fn object(&mut self, key: &str) -> Result<Option<Self>, NotHistory> {
        self.take(key).map(|value| Self::of(key, value)).transpose()
    }

    pub(super) fn list(&mut self, key: &str) -> Result<Vec<Value>, NotHistory> {
        self.plain(key)
    }

    pub(super) fn queue(&mut self, key: &str) -> Result<Option<TaskQueue>, NotHistory> {
        let Some(mut queue) = self.object(key)? else {
            return Ok(None);
        };
        Ok(Some(TaskQueue {
            name: queue.text("name")?,
            kind: queue.choice::<TaskQueueKind>("kind")?,
            normal_name: queue.text("normalName")?,
        }))
    }
}
