//! Every metric of an application: one table, and the numbers of one moment.
//!
//! Counting is relaxed atomics inside the engine; nothing is pushed anywhere. Whoever wants the
//! numbers takes them: [`App::metrics`](crate::App::metrics), as text for Prometheus
//! ([`Metrics::to_prometheus`]), or, with the feature `metrics`, handed to whatever recorder the
//! program has installed ([`Publisher`]). Labels are bounded: queue, type,
//! kind, never an id.

mod collect;
#[cfg(feature = "metrics")]
mod publish;
mod table;
mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use outlast_model::meter::Spread;

#[cfg(feature = "metrics")]
pub use publish::Publisher;
pub use table::{Kind, Metric, TABLE, Unit};

/// The numbers of one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    families: BTreeMap<&'static str, Vec<Sample>>,
}

/// One number of a metric, with the values of its labels in the order of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Values of its labels.
    pub labels: Vec<String>,
    /// The number.
    pub value: Value,
}

/// What was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a few dozen of them, for a moment"
)]
pub enum Value {
    /// Of a counter or a gauge.
    Number(u64),
    /// Of a histogram.
    Spread(Spread),
}

impl Metrics {
    /// The samples of a metric; none if it is unknown.
    pub fn samples(&self, name: &str) -> &[Sample] {
        self.families.get(name).map_or(&[], Vec::as_slice)
    }

    /// A number, with these values of its labels.
    pub fn number(&self, name: &str, labels: &[&str]) -> Option<u64> {
        let wanted = |sample: &&Sample| {
            sample
                .labels
                .iter()
                .map(String::as_str)
                .eq(labels.iter().copied())
        };
        match self.samples(name).iter().find(wanted)?.value {
            Value::Number(number) => Some(number),
            Value::Spread(spread) => Some(spread.count()),
        }
    }

    /// The table's rows with their samples, in its order.
    fn rows(&self) -> impl Iterator<Item = (&'static Metric, &[Sample])> {
        TABLE
            .iter()
            .map(|metric| (metric, self.samples(metric.name)))
    }

    /// Adds to a sample, or begins it: shards are summed up.
    fn add(&mut self, name: &'static str, labels: &[&str], value: Value) {
        let samples = self.families.entry(name).or_default();
        let same = |sample: &&mut Sample| {
            sample
                .labels
                .iter()
                .map(String::as_str)
                .eq(labels.iter().copied())
        };
        match samples.iter_mut().find(same) {
            Some(sample) => sample.value = sample.value.plus(value),
            None => samples.push(Sample {
                labels: labels.iter().map(|label| (*label).to_owned()).collect(),
                value,
            }),
        }
    }
}

impl Value {
    fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => Self::Number(a + b),
            (Self::Spread(a), Self::Spread(b)) => Self::Spread(a.plus(&b)),
            // One metric is of one kind.
            (first @ Self::Number(_), Self::Spread(_))
            | (first @ Self::Spread(_), Self::Number(_)) => first,
        }
    }
}
