//! How wide the nouns are. Each of these is moved a dozen times for every activity of a run, so
//! a variant that needs more room belongs in a box.

use outlast_model::task::{AttemptOutcome, AttemptResult};
use outlast_model::{Command, EventKind, Failure, Job, Payload, Record};

#[test]
fn what_every_activity_moves_fits_into_two_cache_lines() {
    let sizes = [
        ("Record", size_of::<Record>(), 128),
        ("AttemptOutcome", size_of::<AttemptOutcome>(), 128),
        ("Command", size_of::<Command>(), 96),
        ("EventKind", size_of::<EventKind>(), 96),
        ("Job", size_of::<Job>(), 96),
        ("AttemptResult", size_of::<AttemptResult>(), 72),
        ("Payload", size_of::<Payload>(), 56),
        ("Failure", size_of::<Failure>(), 8),
    ];
    for (name, size, limit) in sizes {
        assert!(
            size <= limit,
            "{name} has {size} bytes, more than {limit}: box its largest variant"
        );
    }
}
