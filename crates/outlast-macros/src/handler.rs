//! The methods of a `#[workflow] impl` that outsiders reach by name: signals, queries, updates.
//!
//! A handler that does not wait borrows the state (`&mut self`, a query `&self`); one that waits
//! takes `ctx: Ctx<Self>`, because a borrow held across an await would lock every other handler
//! out. Each becomes a registration and, unless it is dynamic, a method of the handle.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, FnArg, Ident, ImplItemFn, Meta, Pat, ReceiverKind, Result, ReturnType, Type,
};

use crate::args::HandlerArgs;
use crate::signature::{cfgs, is_ctx, last_segment, refuse_receiver, wire_name};
use crate::validator::Validator;

/// What kind of message a handler takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    Signal,
    Query,
    Update,
}

impl Message {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::Query => "query",
            Self::Update => "update",
        }
    }

    /// One of them, in a sentence.
    fn one(self) -> &'static str {
        match self {
            Self::Signal => "a signal",
            Self::Query => "a query",
            Self::Update => "an update",
        }
    }
}

/// A method that outsiders reach by name.
pub(crate) struct Handler {
    pub(crate) message: Message,
    pub(crate) method: ImplItemFn,
    /// Its name for outsiders; a dynamic handler has none.
    pub(crate) wire: Option<String>,
    unfinished: Option<Ident>,
    has_ctx: bool,
    /// The parameters after the receiver and the context.
    inputs: Vec<(Pat, Type)>,
}

impl Handler {
    pub(crate) fn read(
        message: Message,
        attribute: &Attribute,
        method: &ImplItemFn,
    ) -> Result<Self> {
        check_receiver(message, attribute, method)?;
        let typed = method.sig.inputs.iter();
        let typed = typed.filter_map(|argument| match argument {
            FnArg::Typed(argument) => Some(((*argument.pat).clone(), (*argument.ty).clone())),
            FnArg::Receiver(_) => None,
        });
        let mut inputs: Vec<_> = typed.collect();
        let has_ctx = inputs.first().is_some_and(|(_, ty)| is_ctx(ty));
        if has_ctx {
            inputs.remove(0);
        }
        let args = match &attribute.meta {
            Meta::Path(_) => HandlerArgs::default(),
            Meta::List(_) | Meta::NameValue(_) => attribute.parse_args()?,
        };
        check_inputs(message, &args, method, &inputs)?;
        check_unfinished(message, &args, method)?;
        let name = &method.sig.ident;
        let wire = args
            .dynamic
            .is_none()
            .then(|| wire_name(args.name.as_ref(), name));
        Ok(Self {
            message,
            wire,
            unfinished: args.unfinished,
            method: method.clone(),
            has_ctx,
            inputs,
        })
    }

    /// The type a message of this kind carries.
    fn input(&self) -> TokenStream {
        match (&self.wire, self.inputs.first()) {
            (None, _) => quote!((::std::string::String, _)),
            (Some(_), Some((_, ty))) => quote!(#ty),
            (Some(_), None) => quote!(()),
        }
    }

    /// The line that registers it, if the method exists at all.
    pub(crate) fn registration(
        &self,
        krate: &TokenStream,
        state: &Type,
        validator: Option<&Validator>,
    ) -> TokenStream {
        let cfgs = cfgs(&self.method.attrs);
        let line = self.registered(krate, state, validator);
        quote!(#(#cfgs)* #line)
    }

    fn registered(
        &self,
        krate: &TokenStream,
        state: &Type,
        validator: Option<&Validator>,
    ) -> TokenStream {
        let code = self.code(krate, state);
        let end = match &self.unfinished {
            Some(end) => quote!(#krate::HandlerEnd::#end),
            None => quote!(::core::default::Default::default()),
        };
        // A return type that does not do is reported where it is written.
        let at = self.method.sig.output.span();
        match (self.message, &self.wire) {
            (Message::Signal, Some(wire)) => {
                quote_spanned!(at=> __handlers.signal(#wire, #end, #code);)
            }
            (Message::Signal, None) => quote_spanned!(at=> __handlers.any_signal(#end, #code);),
            (Message::Query, Some(wire)) => quote_spanned!(at=> __handlers.query(#wire, #code);),
            (Message::Query, None) => quote_spanned!(at=> __handlers.any_query(#code);),
            (Message::Update, wire) => {
                let validate = validator.map_or_else(
                    || quote!(#krate::__private::unchecked),
                    |validator| validator.closure(state, &self.input()),
                );
                match wire {
                    Some(wire) => {
                        quote_spanned!(at=> __handlers.update(#wire, #end, #validate, #code);)
                    }
                    None => {
                        quote_spanned!(at=> __handlers.any_update(#end, #validate, #code);)
                    }
                }
            }
        }
    }

    /// The closure that calls the method with a message's content.
    fn code(&self, krate: &TokenStream, state: &Type) -> TokenStream {
        let (name, input) = (&self.method.sig.ident, self.input());
        let ctx = self.has_ctx.then(|| quote!(__ctx,));
        let value = match (&self.wire, self.inputs.first()) {
            (None, _) => quote!(__input.0, __input.1),
            (Some(_), Some(_)) => quote!(__input),
            (Some(_), None) => quote!(),
        };
        if self.method.sig.asyncness.is_some() {
            let call = quote!(<#state>::#name(#ctx #value));
            let call = match self.shape() {
                Shape::Plain => {
                    quote!(async move { #krate::__private::plain(#call.await) })
                }
                Shape::Outcome | Shape::Nothing => call,
            };
            return quote! {
                |__ctx: #krate::Ctx<#state>, __input: #input| #call
            };
        }
        let call = quote!(__state.#name(#ctx #value));
        let call = match self.shape() {
            Shape::Plain => quote!(#krate::__private::plain(#call)),
            Shape::Outcome | Shape::Nothing => call,
        };
        if self.message == Message::Query {
            return quote! {
                |__state: &#state, __ctx: #krate::Ctx, __input: #input| #call
            };
        }
        quote! {
            #krate::__private::now(
                |__state: &mut #state, __ctx: #krate::Ctx, __input: #input| #call
            )
        }
    }

    /// How its return type is read. A `Result` is known by how it is written.
    fn shape(&self) -> Shape {
        match &self.method.sig.output {
            _ if self.message == Message::Signal => Shape::Nothing,
            ReturnType::Type(_, ty) if is_result(ty) => Shape::Outcome,
            ReturnType::Type(..) | ReturnType::Default => Shape::Plain,
        }
    }

    /// Its method on the handle; a dynamic handler has none.
    pub(crate) fn handle_method(&self, krate: &TokenStream) -> TokenStream {
        let Some(wire) = &self.wire else {
            return quote!();
        };
        let (vis, name) = (&self.method.vis, &self.method.sig.ident);
        let docs = self
            .method
            .attrs
            .iter()
            .filter(|attribute| attribute.path().is_ident("doc"));
        let (parameter, payload) = match self.inputs.first() {
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
        let (answer, call) = self.handle_answer(krate);
        let cfgs = cfgs(&self.method.attrs);
        quote! {
            #(#cfgs)*
            #(#docs)*
            #[track_caller]
            #vis fn #name(&self, #parameter) -> #answer {
                #call(&self.0, #wire, #payload)
            }
        }
    }

    /// What the method on the handle gives, and the function that makes it.
    fn handle_answer(&self, krate: &TokenStream) -> (TokenStream, TokenStream) {
        if self.message == Message::Signal {
            return (
                quote!(<V as #krate::Via>::Sent),
                quote!(<V as #krate::Via>::send),
            );
        }
        let output = match &self.method.sig.output {
            ReturnType::Type(_, ty) if is_result(ty) => quote!(#ty),
            ReturnType::Type(_, ty) => {
                quote_spanned!(ty.span()=> #krate::__private::Plain<#ty>)
            }
            ReturnType::Default => quote!(#krate::__private::Plain<()>),
        };
        if self.message == Message::Query {
            return (
                quote!(#krate::__private::AskingOf<#output>),
                quote!(#krate::__private::ask),
            );
        }
        (
            quote!(#krate::__private::UpdatingOf<#output>),
            quote!(#krate::__private::send_update),
        )
    }
}

/// How a handler's return type is read.
enum Shape {
    /// A `Result`.
    Outcome,
    /// Any other value: it cannot fail.
    Plain,
    /// Nobody waits for it.
    Nothing,
}

fn is_result(ty: &Type) -> bool {
    last_segment(ty).as_deref() == Some("Result")
}

fn check_inputs(
    message: Message,
    args: &HandlerArgs,
    method: &ImplItemFn,
    inputs: &[(Pat, Type)],
) -> Result<()> {
    let what = message.name();
    if args.dynamic.is_some() && inputs.len() != 2 {
        return Err(Error::new_spanned(
            &method.sig.ident,
            format!(
                "a dynamic {what} takes the name and the content: `name: String, content: Payload`"
            ),
        ));
    }
    if let (None, Some((_, second))) = (&args.dynamic, inputs.get(1)) {
        return Err(Error::new_spanned(
            second,
            format!("{} takes one input; use a struct or a tuple", message.one()),
        ));
    }
    Ok(())
}

fn check_unfinished(message: Message, args: &HandlerArgs, method: &ImplItemFn) -> Result<()> {
    let Some(end) = &args.unfinished else {
        return Ok(());
    };
    if method.sig.asyncness.is_some() {
        return Ok(());
    }
    let what = message.one();
    Err(Error::new_spanned(
        end,
        format!("{what} that does not wait is never left unfinished: drop the option"),
    ))
}

fn check_receiver(message: Message, attribute: &Attribute, method: &ImplItemFn) -> Result<()> {
    let (what, signature) = (message.name(), &method.sig);
    let name = &signature.ident;
    let is_async = signature.asyncness.is_some();
    let receiver = signature.receiver();
    let mutable = receiver
        .is_some_and(|receiver| !matches!(receiver.kind, ReceiverKind::Reference(_, _, None)));
    if message == Message::Query && (is_async || mutable) {
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
        let receiver = if message == Message::Query {
            "`&self`"
        } else {
            "`&mut self`, or `async` with `ctx: Ctx<Self>`"
        };
        return Err(Error::new_spanned(
            name,
            format!("{} needs {receiver}", message.one()),
        ));
    }
    if let (Message::Query, ReturnType::Default) = (message, &signature.output) {
        return Err(Error::new_spanned(name, "a query returns what it read"));
    }
    Ok(())
}
