//! Times, sizes, ids and columns for people.

use std::collections::BTreeSet;

use outlast_model::Payload;
use outlast_model::payload::Encoding;
pub(super) use outlast_model::time::{ago, span};
use outlast_model::view::Summary;

/// Longer values are cut: a table is no place to read them.
const VALUE_CHARS: usize = 160;

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
