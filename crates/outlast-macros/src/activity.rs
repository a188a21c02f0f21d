//! `#[activity]`: a function, and beside it a hidden type that knows its name and types.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, ItemFn, PatType, Result, Type};

use crate::args::{ActivityArgs, crate_path};
use crate::signature::{
    Durable, cfgs, check, input_check, last_segment, meta_ident, parameters, pinned, wire_name,
};

pub(crate) fn expand(args: &ActivityArgs, function: &ItemFn) -> Result<TokenStream> {
    let krate = crate_path(args.krate.as_ref());
    let ItemFn {
        attrs,
        vis,
        sig,
        block,
        ..
    } = function;
    let output = check(sig, Durable::Activity)?;
    let parameters = parameters(
        sig,
        "activities are free functions; pass dependencies with `State<T>`",
    )?;
    let (extractors, input) = split(&parameters)?;
    let (name, inputs) = (&sig.ident, &sig.inputs);
    let meta = meta_ident(name);
    let cfgs = cfgs(attrs);
    let (future, body) = if sig.asyncness.is_some() {
        let body = pinned(output, block);
        (
            quote!(impl ::core::future::Future<Output = #output> + ::core::marker::Send),
            body,
        )
    } else {
        let body = quote!(#krate::__private::Blocking::new(move || -> #output #block));
        (quote!(#krate::__private::Blocking<#output>), body)
    };
    let parts = Meta {
        args,
        function,
        output,
        extractors,
        input,
    };
    let implementation = parts.implementation(&krate);
    Ok(quote! {
        #(#attrs)*
        #vis fn #name(#inputs) -> #krate::__private::ActivityBody<#meta, #future> {
            #krate::__private::ActivityBody::new(#body)
        }
        #(#cfgs)*
        #[doc(hidden)]
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug)]
        #vis struct #meta {}
        #(#cfgs)*
        #implementation
    })
}

/// What the implementation of the metadata trait is made of.
struct Meta<'a> {
    args: &'a ActivityArgs,
    function: &'a ItemFn,
    output: &'a Type,
    extractors: Vec<&'a Type>,
    input: Option<&'a Type>,
}

impl Meta<'_> {
    fn implementation(&self, krate: &TokenStream) -> TokenStream {
        let Self {
            args,
            function,
            output,
            extractors,
            input,
        } = self;
        let name = &function.sig.ident;
        let meta = meta_ident(name);
        let wire = wire_name(args.name.as_ref(), name);
        let list = extractors
            .iter()
            .rev()
            .fold(quote!(()), |rest, ty| quote!((#ty, #rest)));
        let input_type = input.map_or_else(|| quote!(()), |ty| quote!(#ty));
        let input_type = quote_spanned!(input.span()=> type Input = #input_type;);
        let return_type = quote_spanned!(output.span()=> type Return = #output;);
        let extracted = extractors.iter().map(
            |ty| quote_spanned!(ty.span()=> <#ty as #krate::FromActivity>::from_activity(__ctx)),
        );
        let input_value = input.map(|_| quote!(__input)).into_iter();
        let input_check = input_check(krate, *input);
        let defaults = args.defaults.iter().map(
            |(field, value)| quote!(__defaults.#field = ::core::option::Option::Some(#value);),
        );
        let code = if function.sig.asyncness.is_some() {
            quote!(async_code)
        } else {
            quote!(blocking_code)
        };
        quote! {
            const _: () = {
                #input_check
                impl #krate::__private::ActivityMeta for #meta {
                    const NAME: &'static str = #wire;
                    const AT: (&'static str, u32) = (::core::file!(), ::core::line!());
                    #input_type
                    type Extractors = #list;
                    #return_type

                    #[allow(unused_mut, clippy::field_reassign_with_default)]
                    fn defaults() -> #krate::__private::Defaults {
                        let mut __defaults = #krate::__private::Defaults::default();
                        #(#defaults)*
                        __defaults
                    }

                    #[allow(unused_variables, clippy::unit_arg)]
                    fn code(
                        __ctx: &#krate::ActivityCtx,
                        __input: Self::Input,
                    ) -> #krate::__private::Code<Self::Return> {
                        #krate::__private::#code(#name(#(#extracted,)* #(#input_value)*))
                    }
                }
            };
        }
    }
}

/// Extractors come first; what is left, if anything, is the input.
fn split<'a>(parameters: &[&'a PatType]) -> Result<(Vec<&'a Type>, Option<&'a Type>)> {
    let types: Vec<&Type> = parameters.iter().map(|parameter| &*parameter.ty).collect();
    let (extractors, input) = match types.split_last() {
        Some((last, rest)) if !is_extractor(last) => (rest.to_vec(), Some(*last)),
        Some(_) | None => (types, None),
    };
    // Other types may be extractors of the user's own: the compiler will tell.
    if let Some(second) = extractors.iter().find(|ty| is_plain_data(ty)) {
        return Err(Error::new_spanned(
            second,
            "an activity takes extractors first and at most one input, last; put several inputs \
             in a struct or a tuple: `(a, b): (A, B)`",
        ));
    }
    Ok((extractors, input))
}

fn is_extractor(ty: &Type) -> bool {
    matches!(last_segment(ty).as_deref(), Some("ActivityCtx" | "State"))
}

fn is_plain_data(ty: &Type) -> bool {
    const PLAIN: [&str; 20] = [
        "String", "Vec", "Option", "bool", "char", "u8", "u16", "u32", "u64", "u128", "usize",
        "i8", "i16", "i32", "i64", "i128", "isize", "f32", "f64", "Duration",
    ];
    if let Type::Tuple(_) | Type::Array(_) = ty {
        return true;
    }
    last_segment(ty).is_some_and(|name| PLAIN.contains(&name.as_str()))
}
