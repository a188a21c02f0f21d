//! Numbers as Prometheus reads them: its text format, version 0.0.4.

use std::fmt::Write as _;

use outlast_model::meter::{BUCKETS, Spread};

use super::table::plain;
use super::{Kind, Metric, Metrics, Sample, Unit, Value};

impl Metrics {
    /// What a server of [`to_prometheus`](Self::to_prometheus) calls it.
    pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

    /// As text for Prometheus.
    pub fn to_prometheus(&self) -> String {
        let mut text = String::new();
        for (metric, samples) in self.rows() {
            let (name, kind) = (metric.name, metric.kind.name());
            line(&mut text, &format!("# HELP {name} {}", metric.help));
            line(&mut text, &format!("# TYPE {name} {kind}"));
            for sample in samples {
                write_sample(&mut text, metric, sample);
            }
        }
        text
    }
}

fn write_sample(text: &mut String, metric: &Metric, sample: &Sample) {
    let labels = labels(metric, sample);
    match (metric.kind, sample.value) {
        (_, Value::Number(number)) => {
            line(
                text,
                &format!("{}{} {number}", metric.name, braced(&labels)),
            );
        }
        (Kind::Counter | Kind::Gauge | Kind::Histogram, Value::Spread(spread)) => {
            write_spread(text, metric, &labels, &spread);
        }
    }
}

fn write_spread(text: &mut String, metric: &Metric, labels: &[String], spread: &Spread) {
    let (name, mut below) = (metric.name, 0);
    for bucket in 0..BUCKETS {
        below += spread.counts[bucket];
        let bound = Spread::bound(bucket).map_or_else(|| "+Inf".into(), |b| scaled(metric, b));
        let mut all = labels.to_vec();
        all.push(format!("le=\"{bound}\""));
        line(text, &format!("{name}_bucket{} {below}", braced(&all)));
    }
    let (labels, sum) = (braced(labels), scaled(metric, spread.sum));
    line(text, &format!("{name}_sum{labels} {sum}"));
    line(text, &format!("{name}_count{labels} {}", spread.count()));
}

fn scaled(metric: &Metric, value: u64) -> String {
    match metric.unit {
        Unit::Count => value.to_string(),
        Unit::Seconds => format!("{}.{:06}", value / 1_000_000, value % 1_000_000),
    }
}

fn labels(metric: &Metric, sample: &Sample) -> Vec<String> {
    let named = metric.labels.iter().zip(&sample.labels);
    named
        .map(|(name, value)| format!("{}=\"{}\"", plain(name), escaped(value)))
        .collect()
}

fn braced(labels: &[String]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    format!("{{{}}}", labels.join(","))
}

fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}

fn line(text: &mut String, line: &str) {
    // Writing to a String cannot fail.
    writeln!(text, "{line}").ok();
}
