//! Panics of code that is not ours, caught.
//!
//! What a panic carries is a value like any other: it may panic once more when it is dropped, and
//! so may everything else that user code leaves behind. Whoever catches a panic therefore hands
//! the payload to [`text`], and whoever drops what is not ours does it with [`discard`]: neither
//! unwinds. Two destructors that panic in one value are beyond help: the language itself aborts.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

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
