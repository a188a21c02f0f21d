//! Settings from outside: what counts, where it was said, and what is wrong with it.

use std::path::Path;
use std::time::Duration;

use super::*;

fn vars(all: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    all.iter().map(own).collect()
}

fn of_all(config: &Config) -> Settings {
    let mut settings = Settings::default();
    config.apply(&mut settings);
    settings
}

fn of_queue(config: &Config, queue: &str) -> Settings {
    let mut settings = of_all(config);
    config.apply_to(&queue.into(), &mut settings);
    settings
}

fn wrong(config: Result<Config, ConfigError>) -> String {
    config.expect_err("something is wrong").to_string()
}

#[test]
fn variables_set_what_they_name_for_all_or_for_one_queue() {
    let variables = vars(&[
        ("OUTLAST_WORKER_ACTIVITY_SLOTS", "20"),
        ("OUTLAST_QUEUE_GPU_LARGE__ACTIVITY_SLOTS", "4"),
        ("OUTLAST_SHUTDOWN_GRACE", "3s"),
        ("OUTLAST_DB", "not ours"),
        ("PATH", "nobody's"),
    ]);
    let config = Config::new().env(variables).expect("all is well");
    assert_eq!(of_all(&config).activity_slots, 20);
    assert_eq!(of_all(&config).shutdown_grace, Duration::from_secs(3));
    assert_eq!(of_queue(&config, "gpu-large").activity_slots, 4);
    assert_eq!(of_queue(&config, "other").activity_slots, 20);
    let origin = config.origin(&"gpu-large".into(), "worker.activity_slots");
    let variable = "OUTLAST_QUEUE_GPU_LARGE__ACTIVITY_SLOTS";
    assert_eq!(origin, Some(&Origin::Env(variable.into())));
}

#[test]
fn later_beats_earlier_and_a_queue_beats_all() {
    let config = Config::new()
        .env(vars(&[("OUTLAST_QUEUE_GPU__STEP_SLOTS", "1")]))
        .and_then(|config| config.set("worker.step_slots=9"))
        .expect("all is well");
    assert_eq!(of_queue(&config, "gpu").step_slots, 1);
    assert_eq!(of_queue(&config, "other").step_slots, 9);
    let config = config.set("queue.gpu.step_slots = 2").expect("all is well");
    assert_eq!(of_queue(&config, "gpu").step_slots, 2);
    let origin = config.origin(&"gpu".into(), "worker.step_slots");
    assert_eq!(origin, Some(&Origin::CommandLine));
    assert_eq!(config.origin(&"gpu".into(), "worker.cached_runs"), None);
    assert_eq!(config.queues(), ["gpu".into()]);
}

#[test]
fn everything_that_is_wrong_is_found_at_once_with_its_place_and_the_fix() {
    let variables = vars(&[
        ("OUTLAST_WORKER_ACTIVTY_SLOTS", "20"),
        ("OUTLAST_WORKER_STEP_SLOTS", "many"),
        ("OUTLAST_SHUTDOWN_GRACE", "10"),
        ("OUTLAST_QUEUE_GPU__SPARE_THREADS", "1"),
    ]);
    let text = wrong(Config::new().env(variables));
    let lines = [
        "$OUTLAST_QUEUE_GPU__SPARE_THREADS: worker.spare_threads holds for the whole application; \
         say it for all queues [OL-6005]",
        "$OUTLAST_SHUTDOWN_GRACE: shutdown.grace: \"10\" is not a number with ms, s, m, h or d, \
         as 10s [OL-6004]",
        "$OUTLAST_WORKER_ACTIVTY_SLOTS: there is no setting worker.activty_slots; did you mean \
         worker.activity_slots? [OL-6003]",
        "$OUTLAST_WORKER_STEP_SLOTS: worker.step_slots: \"many\" is not a whole number, as 200 \
         [OL-6004]",
    ];
    assert_eq!(text, lines.join("\n"));
    let text = wrong(Config::new().set("worker.activity_slots"));
    assert!(text.contains("write KEY=VALUE"), "{text}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let text = wrong(Config::new().file(Path::new("no/such/outlast.toml")));
    assert!(
        text.starts_with("no/such/outlast.toml cannot be read: "),
        "{text}"
    );
}

/// The table of the guide, as it should be.
fn table() -> String {
    let mut text = String::from("| key | default | what | per queue | meaning | seed |\n");
    text.push_str("|---|---|---|---|---|---|\n");
    for setting in TABLE {
        let default = match setting.field {
            // Depends on the machine.
            "spare_threads" => "cores".to_owned(),
            _ => setting.default_text(),
        };
        let per_queue = match setting.scope {
            Scope::Queue => "yes",
            Scope::Application => "",
        };
        let (key, unit, doc) = (setting.key, setting.unit.name(), setting.doc.trim());
        let row = format!(
            "| `{key}` | {default} | {unit} | {per_queue} | {doc} | {} |\n",
            setting.seed
        );
        text.push_str(&row);
    }
    text
}

/// The table is written anew with `OUTLAST_BLESS=1`.
#[test]
fn the_guide_lists_every_setting_with_its_default() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/settings.md");
    let page = std::fs::read_to_string(path).expect("docs/guide/settings.md");
    let start = page.find("| key |").expect("the page has the table");
    let expected = format!("{}{}", &page[..start], table());
    if std::env::var_os("OUTLAST_BLESS").is_some() {
        std::fs::write(path, &expected).expect("docs can be written");
    }
    let page = std::fs::read_to_string(path).expect("docs/guide/settings.md");
    assert_eq!(page, expected, "OUTLAST_BLESS=1 writes the table anew");
}

#[cfg(feature = "config")]
mod file {
    use super::*;

    const FILE: &str = "\
[worker]
activity_slots = 20
cached_bytes = \"64MiB\"   # less than usual
heartbeat_share = 0.5
strict_replay = true

[shutdown]
grace = \"3s\"

[queue.gpu]
activity_slots = 4
";

    fn read(text: &str) -> Result<Config, ConfigError> {
        Config::new().toml(Path::new("outlast.toml"), text)
    }

    #[test]
    fn a_file_sets_what_it_names_and_remembers_the_line() {
        let config = read(FILE).expect("all is well");
        let all = of_all(&config);
        assert_eq!((all.activity_slots, all.cached_bytes), (20, 64 << 20));
        assert!(all.strict_replay);
        assert_eq!(all.shutdown_grace, Duration::from_secs(3));
        assert_eq!(of_queue(&config, "gpu").activity_slots, 4);
        assert_eq!(config.queues(), ["gpu".into()]);
        let at = |queue: &str, key| config.origin(&queue.into(), key).map(ToString::to_string);
        let line = at("gpu", "worker.activity_slots");
        assert_eq!(line.as_deref(), Some("outlast.toml:11"));
        let line = at("other", "worker.activity_slots");
        assert_eq!(line.as_deref(), Some("outlast.toml:2"));
    }

    #[test]
    fn the_environment_beats_the_file() {
        let variables = vars(&[("OUTLAST_WORKER_ACTIVITY_SLOTS", "7")]);
        let config = read(FILE).and_then(|config| config.env(variables));
        let config = config.expect("all is well");
        assert_eq!(of_all(&config).activity_slots, 7);
        assert_eq!(of_queue(&config, "gpu").activity_slots, 4);
    }

    #[test]
    fn slips_in_a_file_are_named_with_their_line() {
        let text = wrong(read(
            "[worker]\nactivity_slot = 3\nstep_slots = [1]\n[shutdwn]\n",
        ));
        assert!(
            text.contains("outlast.toml:2: there is no setting"),
            "{text}"
        );
        assert!(
            text.contains("did you mean worker.activity_slots?"),
            "{text}"
        );
        assert!(text.contains("outlast.toml:3: worker.step_slots"), "{text}");
        let text = wrong(read("[queue.gpu]\nspare_threads = 3\n"));
        assert!(
            text.contains("outlast.toml:2: worker.spare_threads holds"),
            "{text}"
        );
        let text = wrong(read("activity_slots = 3\n"));
        assert!(
            text.contains("outlast.toml:1: there is no setting activity_slots"),
            "{text}"
        );
    }

    #[test]
    fn what_is_said_twice_or_is_no_toml_is_named_with_its_line() {
        let text = wrong(read("[worker]\nstep_slots = 1\nstep_slots = 2\n"));
        assert!(text.starts_with("outlast.toml:3: "), "{text}");
        assert!(text.contains("duplicate key"), "{text}");
        let text = wrong(read("[worker\n"));
        assert!(text.starts_with("outlast.toml:1: "), "{text}");
    }
}
