//! Panics of code that is not ours, caught.
//!
//! What a panic carries is a value like any other: it may panic once more when it is dropped, and
//! so may everything else that user code leaves behind. Whoever catches a panic therefore hands
//! the payload to [`text`], and whoever drops what is not ours does it with [`discard`]: neither
//! unwinds. Two destructors that panic in one value are beyond help: the language itself aborts.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::path::Path;

use crate::slab;

thread_local! {
    /// Where the workflow code of this thread panicked last, if a hook says so.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// For a panic hook: where a panic began. It is kept if workflow code panicked, in a file of the
/// program itself: those of its dependencies have paths of the machine that built it.
pub fn began_at(place: Option<&Location<'_>>) {
    if slab::entered().is_none() {
        return;
    }
    let own = place.filter(|place| Path::new(place.file()).is_relative());
    let own = own.map(|place| format!("{}:{}", place.file(), place.line()));
    // A thread that is going down has nobody to tell.
    PLACE.try_with(|kept| kept.replace(own)).ok();
}

/// Where the last panic of workflow code began, once.
pub(crate) fn place() -> Option<String> {
    PLACE.try_with(RefCell::take).ok().flatten()
}

/// What a panic says. Its payload is gone afterwards.
pub fn text(payload: Box<dyn Any + Send>) -> String {
    let text = match (payload.downcast_ref::<String>(), payload.downcast_ref()) {
        (Some(text), _) => text.clone(),
        (None, Some(text)) => <&str>::to_string(text),
        (None, None) => "panicked with a value that is not text".to_owned(),
    };
    discard(payload);
    text
}

/// Drops what is not ours.
pub fn discard<T>(value: T) {
    let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) else {
        return;
    };
    if let Err(last) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        // There might be no end to it.
        std::mem::forget(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::panic_any;

    struct Grenade(u32);

    impl Drop for Grenade {
        fn drop(&mut self) {
            if let Some(left) = self.0.checked_sub(1) {
                panic_any(Self(left));
            }
        }
    }

    fn caught(code: impl FnOnce()) -> Box<dyn Any + Send> {
        catch_unwind(AssertUnwindSafe(code)).expect_err("it panics")
    }

    #[test]
    fn a_panic_is_told_in_its_own_words() {
        let n = 7;
        assert_eq!(text(caught(|| panic!("on purpose"))), "on purpose");
        assert_eq!(text(caught(|| panic!("number {n}"))), "number 7");
        let other = text(caught(|| panic_any(n)));
        assert_eq!(other, "panicked with a value that is not text");
    }

    #[test]
    fn what_panics_when_it_is_dropped_does_so_in_vain() {
        for depth in 0..5 {
            discard(Grenade(depth));
            text(caught(|| panic_any(Grenade(depth))));
        }
    }
}
