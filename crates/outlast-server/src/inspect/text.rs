//! Times, sizes, ids and columns for people.

use std::collections::BTreeSet;
use std::time::Duration;

use outlast_model::payload::Encoding;
use outlast_model::view::Summary;
use outlast_model::{Payload, Timestamp};

/// Longer values are cut: a table is no place to read them.
const VALUE_CHARS: usize = 160;

/// How long ago, or in how long.
pub(super) fn ago(time: Timestamp, now: Timestamp) -> String {
    if time > now {
        format!("in {}", span(time.since(now)))
    } else {
        format!("{} ago", span(now.since(time)))
    }
}

/// A length of time in its largest unit.
pub(super) fn span(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0 => format!("{} ms", length.as_millis()),
        1..10 => format!("{:.1} s", length.as_secs_f64()),
        10..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// A size in bytes.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} bytes"),
        10_240..10_485_760 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// A value of a user, as far as it fits.
pub(super) fn value(payload: &Payload) -> String {
    match &payload.encoding {
        Encoding::Null => "null".into(),
        Encoding::Json => {
            let text = String::from_utf8_lossy(&payload.data);
            let cut: String = text.chars().take(VALUE_CHARS).collect();
            if cut.len() < text.len() {
                format!("{cut} .. ({} bytes)", text.len())
            } else {
                cut
            }
        }
        other @ (Encoding::Bytes | Encoding::Other(_)) => {
            format!("{} bytes of {}", payload.size(), other.as_str())
        }
    }
}

/// Beginnings of the run ids, just long enough to tell them apart.
pub(super) fn short_ids(runs: &[Summary]) -> Vec<String> {
    let ids: Vec<String> = runs.iter().map(|run| run.run_id.to_string()).collect();
    let is_enough = |length: &usize| {
        let cut: BTreeSet<&str> = ids.iter().map(|id| &id[..*length]).collect();
        cut.len() == ids.len()
    };
    let length = (8..36).find(is_enough).unwrap_or(36);
    ids.iter().map(|id| id[..length].to_owned()).collect()
}

/// Rows of equal width, the first of them the heads.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &[String; N]| {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<String>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_their_largest_unit() {
        let told: Vec<String> = [0, 900, 1_500, 60_000, 600_000, 10_000_000, 200_000_000]
            .map(|ms| span(Duration::from_millis(ms)))
            .into();
        assert_eq!(
            told,
            ["0 ms", "900 ms", "1.5 s", "60 s", "10 min", "2 h", "2 days"]
        );
        assert_eq!(ago(Timestamp(5_000_000), Timestamp(2_000_000)), "in 3.0 s");
    }

    #[test]
    fn a_long_value_is_cut_and_says_so() {
        let long = Payload::encode(&"x".repeat(500)).expect("encodes");
        assert!(value(&long).ends_with(".. (502 bytes)"));
        assert_eq!(value(&Payload::null()), "null");
        assert_eq!(
            value(&Payload::bytes(vec![1, 2])),
            "2 bytes of binary/plain"
        );
    }
}
