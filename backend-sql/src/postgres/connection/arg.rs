//! The arguments of a statement: bound to it, or written into it.

use std::time::Duration;

use sqlx::{
    Postgres,
    postgres::{PgArguments, types::PgInterval},
    query::Query,
};

use crate::servers::times::micros;

/// One argument.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the type says it")]
pub enum Arg<'a> {
    Text(&'a str),
    MaybeText(Option<&'a str>),
    Number(i64),
    MaybeNumber(Option<i64>),
    Truth(bool),
    Span(Duration),
    Texts(&'a [&'a str]),
    Spans(&'a [Duration]),
}

type Bound = Query<'static, Postgres, PgArguments>;

impl Arg<'_> {
    pub(crate) fn bind(self, query: Bound) -> Bound {
        match self {
            Self::Text(text) => query.bind(text.to_owned()),
            Self::MaybeText(text) => query.bind(text.map(str::to_owned)),
            Self::Number(number) => query.bind(number),
            Self::MaybeNumber(number) => query.bind(number),
            Self::Truth(truth) => query.bind(truth),
            Self::Span(span) => query.bind(interval(span)),
            Self::Texts(texts) => {
                query.bind(texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
            }
            Self::Spans(spans) => {
                query.bind(spans.iter().map(|&span| interval(span)).collect::<Vec<_>>())
            }
        }
    }

    /// The argument as SQL text.
    fn literal(self) -> String {
        match self {
            Self::Text(text) => quoted(text),
            Self::MaybeText(Some(text)) => format!("{}::text", quoted(text)),
            Self::MaybeText(None) => "NULL::text".to_owned(),
            Self::Number(number) => format!("({number}::bigint)"),
            Self::MaybeNumber(Some(number)) => Self::Number(number).literal(),
            Self::MaybeNumber(None) => "NULL::bigint".to_owned(),
            Self::Truth(truth) => truth.to_string(),
            Self::Span(span) => span_literal(span),
            Self::Texts(texts) => array(texts.iter().map(|text| quoted(text)), "text"),
            Self::Spans(spans) => array(spans.iter().map(|&span| span_literal(span)), "interval"),
        }
    }
}

/// Writes the arguments into a statement, in place of `$1` and so on. None of our statements has a
/// `$` and a digit with another meaning.
pub(crate) fn inline(statement: &str, args: &[Arg<'_>]) -> String {
    let mut parts = statement.split('$');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // At most nine arguments.
        let number = part.chars().next().and_then(|c| c.to_digit(10));
        match number.and_then(|number| args.get((number as usize).checked_sub(1)?)) {
            Some(arg) => {
                text.push_str(&arg.literal());
                text.push_str(&part[1..]);
            }
            None => {
                text.push('$');
                text.push_str(part);
            }
        }
    }
    text
}

/// An escape string means the same for every `standard_conforming_strings`.
fn quoted(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

fn span_literal(span: Duration) -> String {
    format!("interval '{} microseconds'", micros(span))
}

fn array(elements: impl Iterator<Item = String>, kind: &str) -> String {
    format!("ARRAY[{}]::{kind}[]", elements.collect::<Vec<_>>().join(", "))
}

fn interval(span: Duration) -> PgInterval {
    PgInterval { months: 0, days: 0, microseconds: micros(span) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out_of_its_quotes() {
        let args = [Arg::Text(r"a'b\'; DROP TABLE x --"), Arg::Number(-5), Arg::MaybeText(None)];
        assert_eq!(
            inline("SELECT $1, $2, $3, '[0-9]+$', $1", &args),
            r"SELECT E'a''b\\''; DROP TABLE x --', (-5::bigint), NULL::text, '[0-9]+$', E'a''b\\''; DROP TABLE x --'"
        );
        let spans = [Duration::from_millis(1), Duration::from_secs(2)];
        assert_eq!(
            inline("$1 $2", &[Arg::Texts(&["$2", "'"]), Arg::Spans(&spans)]),
            "ARRAY[E'$2', E'''']::text[] \
             ARRAY[interval '1000 microseconds', interval '2000000 microseconds']::interval[]"
        );
    }
}
