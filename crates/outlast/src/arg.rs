//! What may be given as an argument: the value, a reference to it, or a borrowed form of it.
//!
//! Encoded at once, so nothing is cloned. Not `impl Into<T>`: with that an integer literal
//! would fall back to `i32` instead of taking the callee's type.

use outlast_model::Payload;
use outlast_model::payload::PayloadError;
use serde::Serialize;

/// Something that can be passed where a durable call takes a `T`.
#[diagnostic::on_unimplemented(
    message = "this durable call takes a `{T}`, but got `{Self}`",
    label = "expected `{T}` or `&{T}`"
)]
pub trait Arg<T>: Sized {
    /// The value, encoded.
    ///
    /// # Errors
    /// The value's own `Serialize` failed.
    fn payload(self) -> Result<Payload, PayloadError>;
}

impl<T: Serialize> Arg<T> for T {
    fn payload(self) -> Result<Payload, PayloadError> {
        Payload::encode(&self)
    }
}

impl<T: Serialize> Arg<T> for &T {
    fn payload(self) -> Result<Payload, PayloadError> {
        Payload::encode(self)
    }
}

impl Arg<String> for &str {
    fn payload(self) -> Result<Payload, PayloadError> {
        Payload::encode(self)
    }
}

impl<T: Serialize> Arg<Vec<T>> for &[T] {
    fn payload(self) -> Result<Payload, PayloadError> {
        Payload::encode(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<T>(argument: impl Arg<T>) -> String {
        let payload = argument.payload().expect("encodes");
        String::from_utf8(payload.data.to_vec()).expect("JSON is UTF-8")
    }

    #[test]
    fn a_literal_takes_the_type_of_the_callee() {
        assert_eq!(text::<u64>(7), "7");
        assert_eq!(text::<f64>(7.0), "7.0");
    }

    #[test]
    fn values_and_borrowed_forms_give_the_same_bytes() {
        let (name, list) = (String::from("Kari"), vec![1_u8, 2]);
        assert_eq!(text::<String>("Kari"), text::<String>(&name));
        assert_eq!(text::<Vec<u8>>(&list[..]), text::<Vec<u8>>(&list));
        assert_eq!(text::<String>(name), "\"Kari\"");
    }
}
