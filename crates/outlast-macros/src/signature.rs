//! What the attributes ask of a signature, and the pieces they all generate.
//!
//! Every refusal names the rule and the way out, and underlines the part that breaks it.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{
    Attribute, Block, Error, FnArg, Ident, LitStr, PatType, Receiver, Result, ReturnType, Safety,
    Signature, Type,
};

/// What a durable function is called in messages.
#[derive(Clone, Copy)]
pub(crate) enum Durable {
    Activity,
    Workflow,
}

impl Durable {
    fn name(self) -> &'static str {
        match self {
            Self::Activity => "activity",
            Self::Workflow => "workflow",
        }
    }
}

/// The return type, once the signature is found fit to be durable.
pub(crate) fn check(signature: &Signature, what: Durable) -> Result<&Type> {
    let what = what.name();
    if let Some(parameter) = signature.generics.params.first() {
        let rule = "the name in the history must mean exactly one function";
        return Err(Error::new_spanned(
            parameter,
            format!("{what} functions cannot be generic: {rule}"),
        ));
    }
    if let Some(token) = &signature.constness {
        return Err(Error::new_spanned(
            token,
            format!("{what} functions cannot be const"),
        ));
    }
    if let Safety::Unsafe(token) = &signature.safety {
        return Err(Error::new_spanned(
            token,
            format!("{what} functions cannot be unsafe"),
        ));
    }
    for argument in &signature.inputs {
        if let FnArg::Typed(argument) = argument {
            check_stored(&argument.ty, what)?;
        }
    }
    if let ReturnType::Type(_, output) = &signature.output {
        return Ok(output);
    }
    Err(Error::new_spanned(
        &signature.ident,
        format!("{what} functions return a Result: add `-> Result<()>`"),
    ))
}

fn check_stored(ty: &Type, what: &str) -> Result<()> {
    if let Type::Reference(_) = ty {
        return Err(Error::new_spanned(
            ty,
            format!(
                "{what} arguments are stored in the history, so they cannot be references; take \
                 the value (callers may still pass a reference)"
            ),
        ));
    }
    if let Type::ImplTrait(_) = ty {
        return Err(Error::new_spanned(
            ty,
            format!("{what} arguments are stored in the history: name the type"),
        ));
    }
    Ok(())
}

/// The typed parameters; a receiver is refused with the given words.
pub(crate) fn parameters<'a>(
    signature: &'a Signature,
    no_receiver: &str,
) -> Result<Vec<&'a PatType>> {
    signature
        .inputs
        .iter()
        .map(|argument| match argument {
            FnArg::Typed(argument) => Ok(argument),
            FnArg::Receiver(receiver) => Err(refuse_receiver(receiver, no_receiver)),
        })
        .collect()
}

/// An error that underlines all of `&mut self`.
pub(crate) fn refuse_receiver(receiver: &Receiver, message: impl std::fmt::Display) -> Error {
    Error::new_spanned(receiver, message)
}

/// The last segment of a path type: how extractors and contexts are told from inputs.
pub(crate) fn last_segment(ty: &Type) -> Option<String> {
    if let Type::Path(path) = ty {
        return path
            .path
            .segments
            .last()
            .map(|segment| segment.ident.to_string());
    }
    None
}

/// Whether the type is written as a workflow's context.
pub(crate) fn is_ctx(ty: &Type) -> bool {
    last_segment(ty).as_deref() == Some("Ctx")
}

/// The name in the history: as given, or as written in the source.
pub(crate) fn wire_name(given: Option<&LitStr>, ident: &Ident) -> String {
    given.map_or_else(|| ident.unraw().to_string(), LitStr::value)
}

/// The hidden type that carries the identity. Not the function's own name: a module of the same
/// name, imported beside it, would clash.
pub(crate) fn meta_ident(ident: &Ident) -> Ident {
    format_ident!("__{}", ident)
}

/// The attributes that decide whether the item exists at all.
pub(crate) fn cfgs(attributes: &[Attribute]) -> Vec<&Attribute> {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"))
        .collect()
}

/// Asks the compiler whether the input can be stored, at the place where its type is written.
pub(crate) fn input_check(krate: &TokenStream, input: Option<&Type>) -> TokenStream {
    let Some(ty) = input else { return quote!() };
    let ask = quote_spanned!(ty.span()=> #krate::__private::assert_data::<#ty>(););
    quote! {
        #[allow(dead_code)]
        fn __input_can_be_stored() {
            #ask
        }
    }
}

/// The body with its return type pinned, so that type errors point into the user's code and not
/// at the attribute.
pub(crate) fn pinned(output: &Type, block: &Block) -> TokenStream {
    let statements = &block.stmts;
    let pin = quote_spanned! {output.span()=>
        #[allow(unreachable_code, unused, clippy::all, clippy::pedantic, clippy::diverging_sub_expression)]
        if false {
            let __result: #output = loop {};
            return __result;
        }
    };
    quote!(async move { #pin #(#statements)* })
}
