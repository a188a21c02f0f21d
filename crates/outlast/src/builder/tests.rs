//! What a builder is told for tests.

use std::time::Duration;

use outlast_model::limits;
use outlast_worker::Settings;

use super::Outlast;

#[test]
fn a_test_gives_slow_code_time_unless_it_says_how_much_or_is_about_that() {
    let own = Duration::from_millis(60);
    for (deadlock_timeout, is_patient, used) in [
        (limits::POLL_FAIL, true, limits::POLL_FAIL_IN_TESTS),
        (limits::POLL_FAIL, false, limits::POLL_FAIL),
        (own, true, own),
    ] {
        let settings = Settings {
            deadlock_timeout,
            ..Settings::default()
        };
        let builder = Outlast::sqlite("unused.db").settings(settings);
        let builder = builder.for_tests(is_patient);
        assert_eq!(builder.settings.deadlock_timeout, used);
    }
}
