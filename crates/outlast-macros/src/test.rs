//! `#[outlast::test]`: a plain test function around an async one, with a test environment.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, FnArg, ItemFn, Result};

use crate::args::{TestArgs, crate_path};

pub(crate) fn expand(args: &TestArgs, function: &ItemFn) -> Result<TokenStream> {
    let krate = crate_path(args.krate.as_ref());
    let ItemFn {
        attrs,
        vis,
        sig,
        block,
        ..
    } = function;
    let (name, output) = (&sig.ident, &sig.output);
    if sig.asyncness.is_none() {
        return Err(Error::new_spanned(
            sig.fn_token,
            "a workflow test is an `async fn`",
        ));
    }
    let (Some(FnArg::Typed(env)), 1) = (sig.inputs.first(), sig.inputs.len()) else {
        return Err(Error::new_spanned(
            name,
            "a workflow test takes `env: TestEnv`",
        ));
    };
    let (pattern, ty) = (&env.pat, &env.ty);
    Ok(quote! {
        #(#attrs)*
        #[::core::prelude::v1::test]
        #vis fn #name() #output {
            #krate::testing::block_on(async {
                let #pattern: #ty = #krate::testing::TestEnv::new();
                #block
            })
        }
    })
}
