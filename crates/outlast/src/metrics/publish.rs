//! Hands the numbers to the recorder that the program has installed for the crate `metrics`.
//!
//! Counters and gauges are set to what they are; of a histogram, what came since the last time is
//! recorded, each value as the bound of its bucket.

use std::collections::BTreeMap;

use outlast_model::meter::{BUCKETS, Spread};

use super::table::plain;
use super::{Kind, Metric, Metrics, Sample, Unit, Value};

/// Hands numbers over, again and again; remembers what it has handed over.
///
/// ```
/// # async fn serve(app: outlast::App) {
/// let mut publisher = outlast::metrics::Publisher::default();
/// loop {
///     publisher.publish(&app.metrics());
///     tokio::time::sleep(std::time::Duration::from_secs(5)).await;
/// }
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Publisher {
    before: BTreeMap<(&'static str, Vec<String>), Spread>,
}

impl Publisher {
    /// Hands the numbers over.
    pub fn publish(&mut self, numbers: &Metrics) {
        for (metric, samples) in numbers.rows() {
            for sample in samples {
                self.hand_over(metric, sample);
            }
        }
    }

    fn hand_over(&mut self, metric: &'static Metric, sample: &Sample) {
        let named = metric.labels.iter().zip(&sample.labels);
        let labels: Vec<metrics::Label> = named
            .map(|(name, value)| metrics::Label::new(plain(name), value.clone()))
            .collect();
        match (metric.kind, sample.value) {
            (Kind::Counter, Value::Number(number)) => {
                metrics::counter!(metric.name, labels).absolute(number);
            }
            (Kind::Gauge | Kind::Histogram, Value::Number(number)) => {
                metrics::gauge!(metric.name, labels).set(number as f64);
            }
            (Kind::Counter | Kind::Gauge | Kind::Histogram, Value::Spread(spread)) => {
                let key = (metric.name, sample.labels.clone());
                let before = self.before.insert(key, spread).unwrap_or(Spread::EMPTY);
                let histogram = metrics::histogram!(metric.name, labels);
                for bucket in 0..BUCKETS {
                    let new = spread.counts[bucket] - before.counts[bucket];
                    let count = usize::try_from(new).unwrap_or(usize::MAX);
                    histogram.record_many(middle(metric, bucket), count);
                }
            }
        }
    }
}

/// What stands for the values of a bucket: its bound, or twice the last one.
fn middle(metric: &Metric, bucket: usize) -> f64 {
    let bound = Spread::bound(bucket).unwrap_or(1 << bucket) as f64;
    match metric.unit {
        Unit::Count => bound,
        Unit::Seconds => bound / 1e6,
    }
}
