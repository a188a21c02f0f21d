//! Text to value and back, for each type a setting can have. What is shown can be read again.

use std::time::Duration;

/// What the value of a setting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A whole number.
    Count,
    /// A number of bytes.
    Bytes,
    /// A length of time.
    Time,
    /// A number from 0 to 1.
    Share,
    /// Yes or no.
    Flag,
    /// A way to supply slots.
    Policy,
}

impl Unit {
    /// How it is written, for a person.
    pub fn form(self) -> &'static str {
        match self {
            Self::Count => "a whole number, as 200",
            Self::Bytes => "a number with B, KiB, MiB or GiB, as 256MiB",
            Self::Time => "a number with ms, s, m, h or d, as 10s",
            Self::Share => "a number from 0 to 1, as 0.8",
            Self::Flag => "true or false",
            Self::Policy => "fixed or resource",
        }
    }

    /// What it is called in a table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Bytes => "bytes",
            Self::Time => "time",
            Self::Share => "share",
            Self::Flag => "flag",
            Self::Policy => "policy",
        }
    }
}

/// A text that is no value of its setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {}", unit.form())]
pub struct WrongValue {
    /// What was given.
    pub text: String,
    /// What is expected.
    pub unit: Unit,
}

/// A type that a setting can have.
pub trait Value: Sized {
    /// What it is.
    const UNIT: Unit;

    /// As text that [`read`](Value::read) takes.
    fn show(&self) -> String;

    /// The value of a text, if it has one.
    fn parse(text: &str) -> Option<Self>;

    /// The value of a text.
    ///
    /// # Errors
    /// If it is none, with the form it must have.
    fn read(text: &str) -> Result<Self, WrongValue> {
        Self::parse(text.trim()).ok_or_else(|| WrongValue {
            text: text.to_owned(),
            unit: Self::UNIT,
        })
    }
}

impl Value for usize {
    const UNIT: Unit = Unit::Count;

    fn show(&self) -> String {
        self.to_string()
    }

    fn parse(text: &str) -> Option<Self> {
        text.replace('_', "").parse().ok()
    }
}

impl Value for bool {
    const UNIT: Unit = Unit::Flag;

    fn show(&self) -> String {
        self.to_string()
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Value for f64 {
    const UNIT: Unit = Unit::Share;

    fn show(&self) -> String {
        self.to_string()
    }

    fn parse(text: &str) -> Option<Self> {
        text.parse()
            .ok()
            .filter(|share| (0.0..=1.0).contains(share))
    }
}

/// How slots are supplied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlotPolicy {
    /// A fixed number.
    #[default]
    Fixed,
    /// As many as memory and processor can take.
    Resource,
}

impl Value for SlotPolicy {
    const UNIT: Unit = Unit::Policy;

    fn show(&self) -> String {
        match self {
            Self::Fixed => "fixed".into(),
            Self::Resource => "resource".into(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Fixed, Self::Resource]
            .into_iter()
            .find(|policy| policy.show() == text)
    }
}

/// Largest first: a value is shown in the largest unit that divides it.
const BYTES: [(&str, u64); 4] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];
const MILLIS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// All `u64` of the table are numbers of bytes.
impl Value for u64 {
    const UNIT: Unit = Unit::Bytes;

    fn show(&self) -> String {
        show(*self, &BYTES, "B")
    }

    fn parse(text: &str) -> Option<Self> {
        parse(text, &BYTES)
    }
}

impl Value for Duration {
    const UNIT: Unit = Unit::Time;

    fn show(&self) -> String {
        show(
            u64::try_from(self.as_millis()).unwrap_or(u64::MAX),
            &MILLIS,
            "s",
        )
    }

    fn parse(text: &str) -> Option<Self> {
        parse(text, &MILLIS).map(Self::from_millis)
    }
}

fn show(value: u64, units: &[(&str, u64)], of_zero: &str) -> String {
    let fitting = units
        .iter()
        .find(|(_, size)| value >= *size && value.is_multiple_of(*size));
    match fitting {
        Some((unit, size)) => format!("{}{unit}", value / size),
        None => format!("{value}{of_zero}"),
    }
}

/// A number and its unit; zero needs none, any other number without one could mean anything.
fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '_')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: u64 = number.replace('_', "").parse().ok()?;
    let unit = unit.trim();
    if unit.is_empty() && number == 0 {
        return Some(0);
    }
    let (_, size) = units.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let time = |text| Duration::read(text).ok().map(|time| time.as_millis());
        assert_eq!(time("10s"), Some(10_000));
        assert_eq!(time("50 ms"), Some(50));
        assert_eq!(time("1_000ms"), Some(1_000));
        assert_eq!(time("1h"), Some(3_600_000));
        assert_eq!(time("0"), Some(0));
        assert_eq!(time("10"), None);
        assert_eq!(time("10 sec"), None);
        assert_eq!(time("99999999999999999999s"), None);
        assert_eq!(time("-1s"), None);
    }

    #[test]
    fn bytes_have_units_and_shares_have_bounds() {
        assert_eq!(u64::read("256MiB"), Ok(256 << 20));
        assert_eq!(u64::read("12"), Err(wrong("12", Unit::Bytes)));
        assert_eq!(u64::read("1GB"), Err(wrong("1GB", Unit::Bytes)));
        assert_eq!(f64::read("0.5"), Ok(0.5));
        assert_eq!(f64::read("1.5"), Err(wrong("1.5", Unit::Share)));
        assert_eq!(usize::read("-1"), Err(wrong("-1", Unit::Count)));
        assert_eq!(bool::read("yes"), Err(wrong("yes", Unit::Flag)));
    }

    #[test]
    fn what_is_shown_can_be_read() {
        for millis in [
            0, 1, 50, 1_000, 1_500, 60_000, 90_000, 3_600_000, 86_400_000,
        ] {
            let time = Duration::from_millis(millis);
            assert_eq!(Duration::read(&time.show()), Ok(time));
        }
        for bytes in [0, 1, 1_023, 1 << 10, 256 << 20, 5 << 30] {
            assert_eq!(u64::read(&bytes.show()), Ok(bytes));
        }
    }

    fn wrong(text: &str, unit: Unit) -> WrongValue {
        WrongValue {
            text: text.into(),
            unit,
        }
    }
}
