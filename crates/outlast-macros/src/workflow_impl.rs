//! `#[workflow]` on an `impl` block: a workflow with a state that its signals change.
//!
//! The methods stay methods. Beside them come the metadata of `run` and a handle with one method
//! per signal. A handler that does not wait borrows `&mut self`; one that waits takes
//! `ctx: Ctx<Self>`, because a borrow held across an await would lock every other handler out.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, FnArg, ImplItem, ImplItemFn, ItemImpl, Pat, ReceiverKind, Result, ReturnType,
    Type,
};

use crate::args::{SignalArgs, WorkflowArgs, crate_path};
use crate::signature::{
    Durable, check, is_ctx, last_segment, meta_ident, parameters, pinned, refuse_receiver,
    wire_name,
};
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
    let Some((output, input, vis)) = parts.run else {
        return Err(Error::new_spanned(
            state,
            "a workflow needs `async fn run(ctx: Ctx<Self>, ..) -> Result<..>`",
        ));
    };
    let handle = format_ident!("{}Handle", ident);
    let default = quote!(<Self::State as ::core::default::Default>::default());
    let signals = &parts.signals;
    let items = workflow_fn::Meta {
        krate: krate.clone(),
        wire: wire_name(args.name.as_ref(), &ident),
        vis: vis.clone(),
        output: output.clone(),
        input,
        state: quote!(#state),
        handle: quote!(#handle),
        call: quote!(<#state>::run),
        init: parts.init.unwrap_or(default),
        signals: quote!(#(#signals)*),
        meta,
    }
    .items();
    let (attrs, kept, methods) = (&block.attrs, &parts.kept, &parts.methods);
    let handle_items = handle_items(&krate, &vis, &handle, &output, methods);
    Ok(quote! {
        #(#attrs)*
        impl #state { #(#kept)* }
        impl #krate::WorkflowState for #state {}
        #(#items)*
        #handle_items
    })
}

fn handle_items(
    krate: &TokenStream,
    vis: &syn::Visibility,
    handle: &syn::Ident,
    output: &Type,
    methods: &[TokenStream],
) -> TokenStream {
    let inner = quote!(#krate::__private::HandleOf<#output>);
    quote! {
        /// Typed handle: one method for each signal.
        #[derive(Clone, Debug)]
        #vis struct #handle(#inner);

        #[allow(missing_docs, dead_code)]
        impl #handle { #(#methods)* }

        impl ::core::convert::From<#inner> for #handle {
            fn from(handle: #inner) -> Self {
                Self(handle)
            }
        }

        impl ::core::ops::Deref for #handle {
            type Target = #inner;

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
    Signal,
    Query,
    Update,
    Validator,
}

impl Role {
    const ALL: [Self; 5] = [
        Self::Init,
        Self::Signal,
        Self::Query,
        Self::Update,
        Self::Validator,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Signal => "signal",
            Self::Query => "query",
            Self::Update => "update",
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
    signals: Vec<TokenStream>,
    methods: Vec<TokenStream>,
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
                self.init = Some(quote!(<#state>::#name(__input)));
            }
            Role::Signal => {
                let signal = Handler::read(role, attribute, method)?;
                self.signals.push(signal.registration(krate, state));
                self.methods.push(signal.handle_method(krate));
            }
            Role::Query | Role::Update => {
                Handler::read(role, attribute, method)?;
                return Err(not_yet(attribute));
            }
            Role::Validator => return Err(not_yet(attribute)),
        }
        let mut method = method.clone();
        method.attrs.retain(|a| !a.path().is_ident(role.name()));
        self.kept.push(quote!(#method));
        Ok(())
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

fn not_yet(attribute: &Attribute) -> Error {
    Error::new_spanned(
        attribute,
        "queries and updates are not part of this version yet; use a signal, and `ctx.with(..)` \
         in `run`",
    )
}

/// A method that outsiders reach by name.
struct Handler<'a> {
    method: &'a ImplItemFn,
    wire: String,
    has_ctx: bool,
    input: Option<(&'a Pat, &'a Type)>,
}

impl<'a> Handler<'a> {
    fn read(role: Role, attribute: &Attribute, method: &'a ImplItemFn) -> Result<Self> {
        check_receiver(role, attribute, method)?;
        let typed = method
            .sig
            .inputs
            .iter()
            .filter_map(|argument| match argument {
                FnArg::Typed(argument) => Some((&*argument.pat, &*argument.ty)),
                FnArg::Receiver(_) => None,
            });
        let mut parameters: Vec<_> = typed.collect();
        let has_ctx = parameters.first().is_some_and(|(_, ty)| is_ctx(ty));
        if has_ctx {
            parameters.remove(0);
        }
        if let Some((_, second)) = parameters.get(1) {
            let role = role.name();
            return Err(Error::new_spanned(
                second,
                format!("a {role} takes one input; use a struct or a tuple"),
            ));
        }
        let args = match &attribute.meta {
            syn::Meta::Path(_) => SignalArgs::default(),
            syn::Meta::List(_) | syn::Meta::NameValue(_) => attribute.parse_args()?,
        };
        Ok(Self {
            wire: wire_name(args.name.as_ref(), &method.sig.ident),
            method,
            has_ctx,
            input: parameters.first().copied(),
        })
    }

    fn registration(&self, krate: &TokenStream, state: &Type) -> TokenStream {
        let Self { wire, method, .. } = self;
        let name = &method.sig.ident;
        let input = self.input.map_or_else(|| quote!(()), |(_, ty)| quote!(#ty));
        let ctx = self.has_ctx.then(|| quote!(__ctx,));
        let value = self.input.map(|_| quote!(__input));
        if method.sig.asyncness.is_some() {
            return quote! {
                __signals.waiting(#wire, |__ctx: #krate::Ctx<#state>, __input: #input| {
                    <#state>::#name(#ctx #value)
                });
            };
        }
        quote! {
            __signals.immediate(
                #wire,
                |__state: &mut #state, __ctx: #krate::Ctx, __input: #input| {
                    __state.#name(#ctx #value)
                },
            );
        }
    }

    fn handle_method(&self, krate: &TokenStream) -> TokenStream {
        let Self { wire, method, .. } = self;
        let (vis, name) = (&method.vis, &method.sig.ident);
        let docs = method
            .attrs
            .iter()
            .filter(|attribute| attribute.path().is_ident("doc"));
        let (parameter, payload) = match self.input {
            Some((pattern, ty)) => {
                let value = if let Pat::Ident(pattern) = pattern {
                    pattern.ident.clone()
                } else {
                    format_ident!("input")
                };
                let payload = quote!(#krate::Arg::<#ty>::payload(#value));
                (quote!(#value: impl #krate::Arg<#ty>), payload)
            }
            None => (quote!(), quote!(#krate::Arg::<()>::payload(()))),
        };
        quote! {
            #(#docs)*
            #vis fn #name(&self, #parameter) -> #krate::Sent {
                #krate::__private::send(&self.0, #wire, #payload)
            }
        }
    }
}

fn check_receiver(role: Role, attribute: &Attribute, method: &ImplItemFn) -> Result<()> {
    let (what, signature) = (role.name(), &method.sig);
    let name = &signature.ident;
    let is_async = signature.asyncness.is_some();
    let receiver = signature.receiver();
    let mutable = receiver
        .is_some_and(|receiver| !matches!(receiver.kind, ReceiverKind::Reference(_, _, None)));
    if role == Role::Query && (is_async || mutable) {
        let rule = "a query only reads: it is a plain `fn(&self, ..)`";
        return Err(Error::new_spanned(attribute, rule));
    }
    if let Some(receiver) = receiver.filter(|_| is_async) {
        return Err(refuse_receiver(
            receiver,
            format!(
                "an async {what} cannot hold `self` across an await; write `async fn {name}(ctx: \
                 Ctx<Self>, ..)` and use `ctx.with(|state| ..)`"
            ),
        ));
    }
    if receiver.is_none() && !is_async {
        let receiver = if role == Role::Query {
            "&self"
        } else {
            "&mut self"
        };
        return Err(Error::new_spanned(
            name,
            format!("a {what} needs `{receiver}`, or `async` with `ctx: Ctx<Self>`"),
        ));
    }
    if let (Role::Query, ReturnType::Default) = (role, &signature.output) {
        return Err(Error::new_spanned(name, "a query returns what it read"));
    }
    Ok(())
}
