//! The table, the page and the text agree; every metric has a number.

use std::collections::BTreeSet;

use super::*;
use crate::testing::TestEnv;

/// Written anew with `OUTLAST_BLESS=1`.
#[test]
fn the_page_lists_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    if std::env::var_os("OUTLAST_BLESS").is_some() {
        std::fs::write(path, table::page()).expect("docs can be written");
    }
    let page = std::fs::read_to_string(path).expect("docs/metrics.md");
    assert_eq!(page, table::page(), "OUTLAST_BLESS=1 writes the page anew");
}

#[test]
fn names_follow_one_convention() {
    let names: BTreeSet<&str> = TABLE.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), TABLE.len(), "each name once");
    for metric in TABLE {
        let is_total = metric.name.ends_with("_total");
        assert_eq!(is_total, metric.kind == Kind::Counter, "{}", metric.name);
        let is_time = metric.name.ends_with("_seconds");
        assert_eq!(is_time, metric.unit == Unit::Seconds, "{}", metric.name);
    }
}

#[test]
fn an_application_has_a_number_for_every_metric_and_no_other() {
    let text = crate::testing::block_on(async {
        let app = TestEnv::new().start().await;
        let metrics = app.metrics();
        for metric in TABLE {
            let samples = metrics.samples(metric.name);
            assert!(!samples.is_empty(), "{} has no number", metric.name);
            let counts = samples.iter().map(|sample| sample.labels.len());
            assert!(counts.eq(samples.iter().map(|_| metric.labels.len())));
        }
        assert_eq!(metrics.families.len(), TABLE.len());
        metrics.to_prometheus()
    });
    assert!(text.contains("\noutlast_ready 1\n"), "{text}");
    assert!(
        text.contains("outlast_commit_seconds_bucket{le=\"+Inf\"} "),
        "{text}"
    );
}

#[test]
fn labels_are_escaped_and_times_are_seconds() {
    let mut metrics = Metrics::default();
    let labels = ["a\"b\\c\nd"];
    metrics.add(table::name::task_failures_total, &labels, Value::Number(3));
    let mut spread = Spread::EMPTY;
    (spread.counts[1], spread.sum) = (2, 1_500_000);
    let value = Value::Spread(spread);
    metrics.add(table::name::commit_seconds, &[], value);
    metrics.add(table::name::commit_seconds, &[], value);
    let text = metrics.to_prometheus();
    for line in [
        "outlast_task_failures_total{cause=\"a\\\"b\\\\c\\nd\"} 3",
        "outlast_commit_seconds_bucket{le=\"0.000001\"} 0",
        "outlast_commit_seconds_bucket{le=\"0.000002\"} 4",
        "outlast_commit_seconds_sum 3.000000",
        "outlast_commit_seconds_count 4",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
}
