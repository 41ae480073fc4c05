//! clap's messages, in one line and without secrets.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::values::{Refused, may_be_secret};
use crate::exit::Failure;

/// The failure for a message of clap about the arguments of `command`: in one line, without
/// possible secrets.
#[must_use]
pub fn refusal(error: &clap::Error, args: &[OsString], command: &str) -> Failure {
    // clap would repeat the whole value, even a very long one.
    match error.source().and_then(|source| source.downcast_ref::<Refused>()) {
        Some(Refused(why)) => Failure::usage(why),
        None => {
            let mut page = error.to_string();
            if let Some(hint) = separator_hint(error, &page, args) {
                page = hint;
            }
            let message = sentence(&without_secrets(page, args));
            Failure::usage(format_args!("{message}; see '{command} --help'"))
        }
    }
}

/// What to say if `--` is missing before COMMAND: clap finds its first word, or an option of it,
/// where nothing may stand. Later words are not shown, since they may be secret.
fn separator_hint(error: &clap::Error, page: &str, args: &[OsString]) -> Option<String> {
    let run = args.iter().position(|arg| arg == "run")?;
    if error.kind() != ErrorKind::UnknownArgument
        || !page.contains("Usage: leasehold run ")
        || args.iter().any(|arg| arg == "--")
    {
        return None;
    }
    let ContextValue::String(found) = error.get(ContextKind::InvalidArg)? else { return None };
    let name = args.get(run + 1)?.to_string_lossy();
    let name = if name.starts_with('-') { "NAME".into() } else { name };
    if found.starts_with('-') {
        let page = page.split("Usage:").next()?;
        return Some(format!(
            "{page}\n\nif it is an option of COMMAND, write -- before COMMAND: leasehold run {name} -- COMMAND"
        ));
    }
    Some(format!(
        "unexpected argument '{found}' found\n\nwrite -- before COMMAND: leasehold run {name} -- {found}"
    ))
}

/// clap's message, without arguments that may be the URL of a store in the wrong place, with its
/// password.
fn without_secrets(mut page: String, args: &[OsString]) -> String {
    for arg in args {
        let arg = arg.to_string_lossy();
        let (option, value) = arg.split_once('=').unwrap_or((&arg, &arg));
        for text in [&*arg, value, option] {
            if may_be_secret(text) {
                page = page.replace(text, "***");
            }
        }
    }
    page
}

/// clap's message, a page of paragraphs, as one line: the problem and the tips.
fn sentence(page: &str) -> String {
    let mut parts = Vec::new();
    for paragraph in page.split("\n\n").map(str::trim) {
        if paragraph.starts_with("Usage:") || paragraph.starts_with("For more information") {
            continue;
        }
        let words = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        parts.push(words.trim_start_matches("error: ").replace(" tip: ", "; tip: "));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}
