//! `#[derive(Failure)]`: an error that keeps its type through the history.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Data, DeriveInput, LitStr, Path, Result};

use crate::args::{crate_path, duration};

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let ident = &input.ident;
    let whole = Marks::read(&input.attrs)?;
    let krate = crate_path(whole.krate.as_ref());
    let name = whole
        .name
        .as_ref()
        .map_or_else(|| ident.to_string(), LitStr::value);
    let by_policy = quote!(#krate::Retry::ByPolicy);
    let default = whole.retry(&krate).unwrap_or(by_policy);
    let retry = match &input.data {
        // Matching on an enum without variants needs the place itself, not a reference.
        Data::Enum(data) if data.variants.is_empty() => quote!(match *self {}),
        Data::Enum(data) => {
            let mut arms = Vec::new();
            for variant in &data.variants {
                let name = &variant.ident;
                let rule = Marks::read(&variant.attrs)?.retry(&krate);
                let rule = rule.unwrap_or_else(|| default.clone());
                arms.push(quote!(Self::#name { .. } => #rule,));
            }
            quote!(match self { #(#arms)* })
        }
        Data::Struct(_) | Data::Union(_) => default,
    };
    let (generics, types, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        impl #generics #krate::Failure for #ident #types #bounds {
            const TYPE: &'static str = #name;

            fn retry(&self) -> #krate::Retry {
                #retry
            }
        }
    })
}

/// What `#[failure(..)]` says.
#[derive(Default)]
struct Marks {
    krate: Option<Path>,
    name: Option<LitStr>,
    is_terminal: bool,
    retry_after: Option<TokenStream>,
}

impl Marks {
    fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut marks = Self::default();
        for attribute in attributes.iter().filter(|a| a.path().is_ident("failure")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("terminal") {
                    marks.is_terminal = true;
                } else if meta.path.is_ident("retry_after") {
                    marks.retry_after = Some(duration(&meta.value()?.parse()?)?);
                } else if meta.path.is_ident("name") {
                    marks.name = Some(meta.value()?.parse()?);
                } else if meta.path.is_ident("crate") {
                    marks.krate = Some(meta.value()?.call(Path::parse_mod_style)?);
                } else {
                    let known = "expected `terminal`, `retry_after = \"5s\"`, `name = \"..\"` or \
                                 `crate = path`";
                    return Err(meta.error(known));
                }
                Ok(())
            })?;
        }
        Ok(marks)
    }

    fn retry(&self, krate: &TokenStream) -> Option<TokenStream> {
        if self.is_terminal {
            return Some(quote!(#krate::Retry::Never));
        }
        self.retry_after
            .as_ref()
            .map(|after| quote!(#krate::Retry::After(#after)))
    }
}
