//! Places in user code that panic on purpose, each so many times, and who counts them: the hook
//! of the process, which sees every panic that is really made.

use std::collections::BTreeMap;
use std::panic::{PanicHookInfo, panic_any, set_hook, take_hook};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Before the name of the place, in the text of a panic that is wanted.
const MARK: &str = "on purpose: ";

/// By place: panics still to be made, and panics seen.
static FUSES: Mutex<BTreeMap<&'static str, Fuse>> = Mutex::new(BTreeMap::new());

#[derive(Clone, Copy, Default)]
struct Fuse {
    left: u32,
    made: u32,
}

fn fuses() -> MutexGuard<'static, BTreeMap<&'static str, Fuse>> {
    FUSES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From here on each place panics so many times.
pub(crate) fn charge(places: &[(&'static str, u32)]) {
    for (place, left) in places {
        let made = 0;
        let before = fuses().insert(place, Fuse { left: *left, made });
        assert!(before.is_none(), "{place} is there twice");
    }
}

/// Panics that were made, by place.
pub(crate) fn made() -> Vec<(&'static str, u32)> {
    let fuses = fuses();
    fuses
        .iter()
        .map(|(place, fuse)| (*place, fuse.made))
        .collect()
}

/// Places that have not panicked as often as they should.
pub(crate) fn unspent() -> Vec<(&'static str, u32)> {
    let fuses = fuses();
    let left = fuses.iter().filter(|(_, fuse)| fuse.left > 0);
    left.map(|(place, fuse)| (*place, fuse.left)).collect()
}

/// Panics, if this place still has to.
pub(crate) fn blow(place: &'static str) {
    assert!(!burn(place), "{MARK}{place}");
}

/// The same with a payload that panics once more when it is dropped.
pub(crate) fn blow_up(place: &'static str) {
    if burn(place) {
        panic_any(Grenade(place));
    }
}

fn burn(place: &'static str) -> bool {
    let mut fuses = fuses();
    let Some(fuse) = fuses.get_mut(place).filter(|fuse| fuse.left > 0) else {
        return false;
    };
    fuse.left -= 1;
    true
}

/// What a panic can carry.
struct Grenade(&'static str);

impl Drop for Grenade {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            blow("destructor of what a panic carries");
        }
    }
}

/// Panics when it is dropped.
pub(crate) struct Bomb(pub(crate) &'static str);

impl Drop for Bomb {
    fn drop(&mut self) {
        // A second panic while one is under way would end the process, as Rust has it.
        if !std::thread::panicking() {
            blow(self.0);
        }
    }
}

/// Counts wanted panics in silence; all others are told as ever.
pub(crate) fn listen() {
    let before = take_hook();
    set_hook(Box::new(move |panic| match place(panic) {
        Some(place) => {
            if let Some(fuse) = fuses().get_mut(place.as_str()) {
                fuse.made += 1;
            }
        }
        None => before(panic),
    }));
}

fn place(panic: &PanicHookInfo<'_>) -> Option<String> {
    if let Some(grenade) = panic.payload().downcast_ref::<Grenade>() {
        return Some(grenade.0.to_owned());
    }
    let text = panic.payload_as_str()?;
    text.strip_prefix(MARK).map(ToOwned::to_owned)
}
