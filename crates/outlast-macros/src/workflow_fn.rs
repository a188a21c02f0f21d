//! `#[workflow]` on an `async fn`: a workflow whose state is its local variables.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, Ident, ItemFn, PatType, Result, Signature, Type, Visibility};

use crate::args::{WorkflowArgs, crate_path};
use crate::signature::{
    Durable, cfgs, check, input_check, is_ctx, meta_ident, parameters, pinned, wire_name,
};

pub(crate) fn expand(args: &WorkflowArgs, function: &ItemFn) -> Result<TokenStream> {
    let krate = crate_path(args.krate.as_ref());
    let ItemFn {
        attrs,
        vis,
        sig,
        block,
        ..
    } = function;
    let output = check(sig, Durable::Workflow)?;
    let no_receiver = "a workflow function takes `ctx: Ctx`; for state use `#[workflow] impl`";
    let parameters = parameters(sig, no_receiver)?;
    let input = input(sig, &parameters)?;
    let (name, inputs) = (&sig.ident, &sig.inputs);
    let body = pinned(output, block);
    let meta = Meta {
        krate: krate.clone(),
        meta: meta_ident(name),
        vis: vis.clone(),
        wire: wire_name(args.name.as_ref(), name),
        output: output.clone(),
        input: input.cloned(),
        state: quote!(()),
        handle: quote!(#krate::__private::HandleOf<#output>),
        peer: quote!(#krate::External),
        call: quote!(#name),
        init: quote!(),
        handlers: quote!(),
    };
    let (meta_ident, cfgs, [declaration, implementation]) = (&meta.meta, cfgs(attrs), meta.items());
    Ok(quote! {
        #(#attrs)*
        #vis fn #name(#inputs)
            -> #krate::__private::WorkflowBody<#meta_ident, impl ::core::future::Future<Output = #output>>
        {
            #krate::__private::WorkflowBody::new(#body)
        }
        #(#cfgs)*
        #declaration
        #(#cfgs)*
        #implementation
    })
}

/// The input of a workflow: what follows the context.
pub(crate) fn input<'a>(sig: &Signature, parameters: &[&'a PatType]) -> Result<Option<&'a Type>> {
    if sig.asyncness.is_none() {
        return Err(Error::new_spanned(
            sig.fn_token,
            "a workflow is an `async fn`; blocking code belongs in an activity",
        ));
    }
    let Some((first, rest)) = parameters.split_first() else {
        return Err(no_context(&sig.ident));
    };
    if !is_ctx(&first.ty) {
        return Err(no_context(&first.ty));
    }
    if let Some(second) = rest.get(1) {
        return Err(Error::new_spanned(
            &second.ty,
            "a workflow takes one input after `ctx`; put several inputs in a struct or a tuple: \
             `(a, b): (A, B)`",
        ));
    }
    Ok(rest.first().map(|parameter| &*parameter.ty))
}

fn no_context(place: &impl quote::ToTokens) -> Error {
    Error::new_spanned(
        place,
        "the first parameter of a workflow is its context: `ctx: Ctx`",
    )
}

/// What the implementation of a workflow's metadata is made of.
pub(crate) struct Meta {
    pub(crate) krate: TokenStream,
    pub(crate) meta: Ident,
    pub(crate) vis: Visibility,
    pub(crate) wire: String,
    pub(crate) output: Type,
    pub(crate) input: Option<Type>,
    pub(crate) state: TokenStream,
    /// What a client gets.
    pub(crate) handle: TokenStream,
    /// What another workflow gets.
    pub(crate) peer: TokenStream,
    /// The function that makes main.
    pub(crate) call: TokenStream,
    pub(crate) init: TokenStream,
    pub(crate) handlers: TokenStream,
}

impl Meta {
    /// The hidden type and its implementation.
    pub(crate) fn items(&self) -> [TokenStream; 2] {
        let Self {
            krate,
            meta,
            vis,
            wire,
            output,
            state,
            handle,
            peer,
            call,
            init,
            handlers,
            ..
        } = self;
        let (input_type, arguments) = match &self.input {
            Some(ty) => (quote!(#ty), quote!(__ctx, __input)),
            None => (quote!(()), quote!(__ctx)),
        };
        let input_type = quote_spanned!(self.input.span()=> type Input = #input_type;);
        let return_type = quote_spanned!(output.span()=> type Return = #output;);
        let declaration = quote! {
            #[doc(hidden)]
            #[allow(non_camel_case_types)]
            #[derive(Clone, Copy, Debug)]
            #vis struct #meta {}
        };
        let input_check = input_check(krate, self.input.as_ref());
        let implementation = quote! {
            const _: () = {
                #input_check
                #[allow(unused_variables)]
                impl #krate::__private::WorkflowMeta for #meta {
                    const NAME: &'static str = #wire;
                    const AT: (&'static str, u32) = (::core::file!(), ::core::line!());
                    type State = #state;
                    #input_type
                    #return_type
                    type Handle = #handle;
                    type Peer = #peer;

                    fn init(__input: &Self::Input) -> Self::State {
                        #init
                    }

                    fn main(
                        __ctx: #krate::Ctx<Self::State>,
                        __input: Self::Input,
                    ) -> #krate::__private::LocalFuture<Self::Return> {
                        #krate::__private::main_future(#call(#arguments))
                    }

                    fn handlers(__handlers: &#krate::__private::Handlers<Self::State>) {
                        #handlers
                    }
                }
            };
        };
        [declaration, implementation]
    }
}
