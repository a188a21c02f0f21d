//! `#[validator(update)]`: says whether an update may run, before anything is recorded of it.
//!
//! It only reads: `fn(&self, &Input) -> Result<(), E>`. Its error is what the caller is told.

use proc_macro2::TokenStream;
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Ident, ImplItemFn, Meta, ReceiverKind, Result, ReturnType, Type};

/// A method that judges one update.
pub(crate) struct Validator {
    /// The update's method.
    pub(crate) of: Ident,
    method: ImplItemFn,
}

impl Validator {
    pub(crate) fn read(attribute: &Attribute, method: &ImplItemFn) -> Result<Self> {
        let Meta::List(_) = &attribute.meta else {
            let rule = "name the update that it judges: `#[validator(remove)]`";
            return Err(Error::new_spanned(attribute, rule));
        };
        let of: Ident = attribute.parse_args()?;
        let signature = &method.sig;
        let reads = signature
            .receiver()
            .is_some_and(|receiver| matches!(receiver.kind, ReceiverKind::Reference(_, _, None)));
        if signature.asyncness.is_some() || !reads {
            let rule = "a validator only reads: it is a plain `fn(&self, &Input) -> Result<(), E>`";
            return Err(Error::new_spanned(attribute, rule));
        }
        if let ReturnType::Default = signature.output {
            let rule = "a validator says why not: add `-> Result<()>`";
            return Err(Error::new_spanned(&signature.ident, rule));
        }
        if signature.inputs.len() > 2 {
            let rule = "a validator takes the update's input by reference, and nothing else";
            return Err(Error::new_spanned(&signature.ident, rule));
        }
        Ok(Self {
            of,
            method: method.clone(),
        })
    }

    /// The closure that asks it; a wrong type is reported at the validator's own parameter.
    pub(crate) fn closure(&self, state: &Type, input: &TokenStream) -> TokenStream {
        let name = &self.method.sig.ident;
        let span = self
            .method
            .sig
            .inputs
            .last()
            .map_or_else(|| name.span(), Spanned::span);
        let value = (self.method.sig.inputs.len() > 1).then(|| quote_spanned!(span=> __input));
        quote_spanned! {span=>
            |__state: &#state, __input: &#input| __state.#name(#value)
        }
    }
}
