//! `#[workflow]` on an `impl` block: a workflow with a state that its handlers share.
//!
//! The methods stay methods. Beside them come the metadata of `run`, the registration of the
//! handlers, and a handle with one method per signal, query and update. Inside another workflow
//! the same handle has the signals only: a question has no durable answer there.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{Attribute, Error, ImplItem, ImplItemFn, ItemImpl, Result, Type};

use crate::args::{WorkflowArgs, crate_path};
use crate::handler::{Handler, Message};
use crate::signature::{Durable, check, last_segment, meta_ident, parameters, pinned, wire_name};
use crate::validator::Validator;
use crate::workflow_fn;

pub(crate) fn expand(args: &WorkflowArgs, block: &ItemImpl) -> Result<TokenStream> {
    let krate = crate_path(args.krate.as_ref());
    let state = &block.self_ty;
    let Some(name) = last_segment(state).filter(|_| block.generics.params.is_empty()) else {
        return Err(Error::new_spanned(
            state,
            "a workflow's state is a plain type: no generics",
        ));
    };
    if let Some((path, _)) = &block.trait_ {
        return Err(Error::new_spanned(
            path,
            "#[workflow] goes on the type's own `impl` block",
        ));
    }
    let ident = format_ident!("{}", name, span = state.span());
    let meta = meta_ident(&ident);
    let mut parts = Parts::default();
    for item in &block.items {
        parts.take(&krate, state, &meta, item)?;
    }
    let registrations = parts.registrations(&krate, state)?;
    let Some((output, input, vis)) = &parts.run else {
        return Err(Error::new_spanned(
            state,
            "a workflow needs `async fn run(ctx: Ctx<Self>, ..) -> Result<..>`",
        ));
    };
    let handle = format_ident!("{}Handle", ident);
    let default = quote!(<Self::State as ::core::default::Default>::default());
    let shown = shown(&krate, state);
    let items = workflow_fn::Meta {
        krate: krate.clone(),
        wire: wire_name(args.name.as_ref(), &ident),
        vis: vis.clone(),
        output: output.clone(),
        input: input.clone(),
        state: quote!(#state),
        handle: quote!(#handle),
        peer: quote!(#handle<#krate::Ctx>),
        call: quote!(<#state>::run),
        init: parts.init.clone().unwrap_or(default),
        handlers: quote!(#(#registrations)* #shown),
        meta,
    }
    .items();
    let (attrs, kept) = (&block.attrs, &parts.kept);
    let handle_items = handle_items(&krate, &handle, &parts);
    let input = input.as_ref().map_or_else(|| quote!(()), |ty| quote!(#ty));
    Ok(quote! {
        #(#attrs)*
        impl #state { #(#kept)* }
        impl #krate::WorkflowState for #state {}
        impl<__A: #krate::Arg<#input>> #krate::__private::ContinuesWith<__A> for #state {
            fn payload(input: __A) -> #krate::__private::Encoded {
                #krate::Arg::<#input>::payload(input)
            }
        }
        #(#items)*
        #handle_items
    })
}

/// Registers the view of the state. The method of the nearer trait wins, so that a state that
/// serialises is shown and any other still compiles.
fn shown(krate: &TokenStream, state: &Type) -> TokenStream {
    quote! {
        __handlers.show_state(|__state: &#state| {
            #[allow(unused_imports)]
            use #krate::__private::{ShowAsJson as _, ShowNothing as _};
            (&#krate::__private::Shown(__state)).payload()
        });
    }
}

fn handle_items(krate: &TokenStream, handle: &syn::Ident, parts: &Parts) -> TokenStream {
    let Some((output, _, vis)) = &parts.run else {
        return quote!();
    };
    let (client, peer) = (
        quote!(#krate::__private::HandleOf<#output>),
        quote!(#krate::External),
    );
    let (signals, answers): (Vec<_>, Vec<_>) = parts
        .handlers
        .iter()
        .partition(|handler| handler.message == Message::Signal);
    let signals = signals.iter().map(|handler| handler.handle_method(krate));
    let answers = answers.iter().map(|handler| handler.handle_method(krate));
    quote! {
        /// Typed handle: one method for each signal, query and update. In another workflow
        /// (`V = Ctx`) it has the signals.
        #[derive(Clone, Debug)]
        #vis struct #handle<V: #krate::Via = #krate::App>(V::To<#output>);

        #[allow(missing_docs, dead_code)]
        impl<V: #krate::Via> #handle<V> { #(#signals)* }

        #[allow(missing_docs, dead_code)]
        impl #handle { #(#answers)* }

        impl ::core::convert::From<#client> for #handle {
            fn from(handle: #client) -> Self {
                Self(handle)
            }
        }

        impl ::core::convert::From<#peer> for #handle<#krate::Ctx> {
            fn from(handle: #peer) -> Self {
                Self(handle)
            }
        }

        impl<V: #krate::Via> ::core::ops::Deref for #handle<V> {
            type Target = V::To<#output>;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }
    }
}

/// What an attribute says a method is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Init,
    Handler(Message),
    Validator,
}

impl Role {
    const ALL: [Self; 5] = [
        Self::Init,
        Self::Handler(Message::Signal),
        Self::Handler(Message::Query),
        Self::Handler(Message::Update),
        Self::Validator,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Handler(message) => message.name(),
            Self::Validator => "validator",
        }
    }

    /// The role a method has, and the attribute that says so.
    fn of(method: &ImplItemFn) -> Option<(Self, &Attribute)> {
        let role = |a: &Attribute| Self::ALL.into_iter().find(|r| a.path().is_ident(r.name()));
        method
            .attrs
            .iter()
            .find_map(|attribute| Some((role(attribute)?, attribute)))
    }
}

/// What the items of the block come to.
#[derive(Default)]
struct Parts {
    kept: Vec<TokenStream>,
    run: Option<(Type, Option<Type>, syn::Visibility)>,
    init: Option<TokenStream>,
    handlers: Vec<Handler>,
    validators: Vec<Validator>,
}

impl Parts {
    fn take(
        &mut self,
        krate: &TokenStream,
        state: &Type,
        meta: &syn::Ident,
        item: &ImplItem,
    ) -> Result<()> {
        let ImplItem::Fn(method) = item else {
            self.kept.push(quote!(#item));
            return Ok(());
        };
        let Some((role, attribute)) = Role::of(method) else {
            if method.sig.ident == "run" {
                return self.take_run(krate, meta, method);
            }
            self.kept.push(quote!(#method));
            return Ok(());
        };
        match role {
            Role::Init => {
                let name = &method.sig.ident;
                let input = method.sig.inputs.first().map(|_| quote!(__input));
                self.init = Some(quote!(<#state>::#name(#input)));
            }
            Role::Handler(message) => {
                self.add_handler(Handler::read(message, attribute, method)?)?;
            }
            Role::Validator => self.validators.push(Validator::read(attribute, method)?),
        }
        let mut method = method.clone();
        method.attrs.retain(|a| !a.path().is_ident(role.name()));
        // How a message is passed is our rule, not the author's choice.
        self.kept.push(quote! {
            #[allow(
                clippy::needless_pass_by_value,
                clippy::ptr_arg,
                clippy::trivially_copy_pass_by_ref
            )]
            #method
        });
        Ok(())
    }

    fn add_handler(&mut self, handler: Handler) -> Result<()> {
        let same =
            |other: &&Handler| other.message == handler.message && other.wire == handler.wire;
        if let Some(other) = self.handlers.iter().find(same) {
            let (what, name) = (handler.message.name(), &handler.method.sig.ident);
            let first = &other.method.sig.ident;
            let text = match &handler.wire {
                Some(wire) => {
                    format!("two {what} handlers are named {wire:?}: `{first}` and `{name}`")
                }
                None => format!("two dynamic {what} handlers: `{first}` and `{name}`"),
            };
            return Err(Error::new_spanned(name, text));
        }
        self.handlers.push(handler);
        Ok(())
    }

    /// The lines that register the handlers, each update with its validator.
    fn registrations(&self, krate: &TokenStream, state: &Type) -> Result<Vec<TokenStream>> {
        let updates = || {
            self.handlers
                .iter()
                .filter(|handler| handler.message == Message::Update)
        };
        for (index, validator) in self.validators.iter().enumerate() {
            let of = &validator.of;
            if !updates().any(|update| update.method.sig.ident == *of) {
                return Err(Error::new_spanned(
                    of,
                    format!("there is no `#[update]` method `{of}` in this block"),
                ));
            }
            if self.validators[..index].iter().any(|other| other.of == *of) {
                let rule = format!("`{of}` has a validator already: an update has one");
                return Err(Error::new_spanned(of, rule));
            }
        }
        let validator = |handler: &Handler| {
            let of = |validator: &&Validator| validator.of == handler.method.sig.ident;
            self.validators
                .iter()
                .find(of)
                .filter(|_| handler.message == Message::Update)
        };
        Ok(self
            .handlers
            .iter()
            .map(|handler| handler.registration(krate, state, validator(handler)))
            .collect())
    }

    fn take_run(
        &mut self,
        krate: &TokenStream,
        meta: &syn::Ident,
        method: &ImplItemFn,
    ) -> Result<()> {
        let ImplItemFn {
            attrs,
            vis,
            sig,
            block,
            ..
        } = method;
        let output = check(sig, Durable::Workflow)?;
        let parameters = parameters(
            sig,
            "`run` lives across awaits while handlers change the state, so it cannot hold `self`; \
             take `ctx: Ctx<Self>` and use `ctx.with(|state| ..)`",
        )?;
        let input = workflow_fn::input(sig, &parameters)?;
        self.run = Some((output.clone(), input.cloned(), vis.clone()));
        let (inputs, body) = (&sig.inputs, pinned(output, block));
        self.kept.push(quote! {
            #(#attrs)*
            #vis fn run(#inputs)
                -> #krate::__private::WorkflowBody<#meta, impl ::core::future::Future<Output = #output>>
            {
                #krate::__private::WorkflowBody::new(#body)
            }
        });
        Ok(())
    }
}
