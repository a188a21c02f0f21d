//! Options inside the parentheses of the attributes.
//!
//! Durations are read here, so that a wrong one is a compile error at its place and costs
//! nothing at run time.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Ident, LitStr, Path, Result, Token};

/// Options of `#[activity(..)]`.
#[derive(Default)]
pub(crate) struct ActivityArgs {
    pub(crate) krate: Option<Path>,
    pub(crate) name: Option<LitStr>,
    /// Field of the defaults and its value as an expression.
    pub(crate) defaults: Vec<(Ident, TokenStream)>,
}

/// Options of `#[workflow(..)]`.
#[derive(Default)]
pub(crate) struct WorkflowArgs {
    pub(crate) krate: Option<Path>,
    pub(crate) name: Option<LitStr>,
}

/// Options of `#[outlast::test(..)]`.
#[derive(Default)]
pub(crate) struct TestArgs {
    pub(crate) krate: Option<Path>,
}

/// Options of `#[signal(..)]`, `#[query(..)]` and `#[update(..)]`.
#[derive(Default)]
pub(crate) struct HandlerArgs {
    pub(crate) name: Option<LitStr>,
    /// The handler of every name that no other has.
    pub(crate) dynamic: Option<Ident>,
    /// What becomes of it when main returns first: a variant of `HandlerEnd`.
    pub(crate) unfinished: Option<Ident>,
}

/// The path of the `outlast` crate, unless it was renamed.
pub(crate) fn crate_path(given: Option<&Path>) -> TokenStream {
    given.map_or_else(|| quote!(::outlast), |path| quote!(#path))
}

impl Parse for ActivityArgs {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut args = Self::default();
        each_option(input, |key, value| {
            match key.to_string().as_str() {
                "crate" => args.krate = Some(value.call(Path::parse_mod_style)?),
                "name" => args.name = Some(value.parse()?),
                "queue" => {
                    let queue: LitStr = value.parse()?;
                    args.defaults.push((key, quote!(#queue)));
                }
                "start_to_close" | "schedule_to_close" | "schedule_to_start" | "heartbeat" => {
                    args.defaults.push((key, duration(&value.parse()?)?));
                }
                other => {
                    return Err(unknown(
                        &key,
                        other,
                        "name, start_to_close, schedule_to_close, schedule_to_start, heartbeat, \
                         queue, crate",
                    ));
                }
            }
            Ok(())
        })?;
        Ok(args)
    }
}

impl Parse for WorkflowArgs {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut args = Self::default();
        each_option(input, |key, value| {
            match key.to_string().as_str() {
                "crate" => args.krate = Some(value.call(Path::parse_mod_style)?),
                "name" => args.name = Some(value.parse()?),
                other => return Err(unknown(&key, other, "name, crate")),
            }
            Ok(())
        })?;
        Ok(args)
    }
}

impl Parse for TestArgs {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut args = Self::default();
        each_option(input, |key, value| {
            match key.to_string().as_str() {
                "crate" => args.krate = Some(value.call(Path::parse_mod_style)?),
                other => return Err(unknown(&key, other, "crate")),
            }
            Ok(())
        })?;
        Ok(args)
    }
}

impl Parse for HandlerArgs {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut args = Self::default();
        each_key(input, |key, input| {
            if key == "dynamic" {
                args.dynamic = Some(key);
                return Ok(());
            }
            input.parse::<Token![=]>()?;
            match key.to_string().as_str() {
                "name" => args.name = Some(input.parse()?),
                "unfinished" => args.unfinished = Some(handler_end(&input.parse()?)?),
                other => return Err(unknown(&key, other, "name, dynamic, unfinished")),
            }
            Ok(())
        })?;
        if let (Some(_), Some(dynamic)) = (&args.name, &args.dynamic) {
            let rule = "a dynamic handler takes every name that no other has: it has none itself";
            return Err(Error::new_spanned(dynamic, rule));
        }
        Ok(args)
    }
}

fn handler_end(text: &LitStr) -> Result<Ident> {
    let end = match text.value().as_str() {
        "warn" => "Warn",
        "abandon" => "Abandon",
        "finish" => "Finish",
        _ => {
            let help = "expected \"warn\" (dropped, with a warning), \"abandon\" (dropped) or \
                        \"finish\" (the run closes when it has ended)";
            return Err(Error::new_spanned(text, help));
        }
    };
    Ok(Ident::new(end, text.span()))
}

/// Reads `key = value, key = value`; `crate` counts as a key although it is a keyword.
fn each_option(
    input: ParseStream<'_>,
    mut take: impl FnMut(Ident, ParseStream<'_>) -> Result<()>,
) -> Result<()> {
    each_key(input, |key, input| {
        input.parse::<Token![=]>()?;
        take(key, input)
    })
}

/// Reads what begins with a key and is separated by commas.
fn each_key(
    input: ParseStream<'_>,
    mut take: impl FnMut(Ident, ParseStream<'_>) -> Result<()>,
) -> Result<()> {
    use syn::ext::IdentExt;
    while !input.is_empty() {
        let key = input.call(Ident::parse_any)?;
        take(key, input)?;
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
    }
    Ok(())
}

fn unknown(key: &Ident, name: &str, known: &str) -> Error {
    Error::new_spanned(
        key,
        format!("unknown option `{name}`; expected one of: {known}"),
    )
}

/// The expression for a duration written as text.
pub(crate) fn duration(text: &LitStr) -> Result<TokenStream> {
    let Some(value) = parse_duration(&text.value()) else {
        let help = "expected a duration like \"250ms\", \"30s\", \"5m\", \"1h30m\" or \"14d\"";
        return Err(Error::new_spanned(text, help));
    };
    let (secs, nanos) = (value.as_secs(), value.subsec_nanos());
    Ok(quote!(::core::time::Duration::new(#secs, #nanos)))
}

fn parse_duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let unit = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let millis: u64 = match &rest[..unit] {
            "ms" => 1,
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        total = total.checked_add(Duration::from_millis(number.checked_mul(millis)?))?;
        rest = rest[unit..].trim_start();
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_sum_of_numbers_with_units() {
        assert_eq!(parse_duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(parse_duration("1h 30m"), Some(Duration::from_secs(5_400)));
        assert_eq!(
            parse_duration("14d"),
            Some(Duration::from_secs(14 * 86_400))
        );
    }

    #[test]
    fn a_number_without_a_unit_is_refused() {
        for wrong in [
            "",
            "30",
            "s",
            "30 parsecs",
            "-1s",
            "1.5h",
            "99999999999999999999s",
        ] {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
    }
}
