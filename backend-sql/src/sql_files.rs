//! The statements of a dialect, from its SQL files.
//!
//! ```sql
//! -- name: release(name, owner)
//! -- What the statement does, and what it answers.
//! UPDATE {locks} SET owner = NULL WHERE name = $name AND {is_held}
//!
//! -- part: is_held
//! owner = $owner AND expires > {now}
//! ```
//!
//! A heading names a statement and its arguments, in the order in which Rust binds them; `$owner`
//! stands for one of them. `{is_held}` includes a part, `{now}` a value that Rust computes, and
//! `{locks}` the name of a table. A part may include others, and uses the arguments of the
//! statement that includes it. Comments are not sent, except the markers of guards, which tests
//! need.

use std::{collections::HashMap, iter, sync::Arc};

use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

use crate::tables::Tables;

/// How a dialect writes names and arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Syntax {
    /// Stands around the name of a table.
    pub(crate) quote: char,
    /// The mark of the argument with this number, which counts from 1.
    pub(crate) argument: fn(usize) -> String,
}

/// The texts under the headings of some files, by name.
#[derive(Debug)]
pub(crate) struct SqlFiles<'a> {
    statements: HashMap<&'static str, (Vec<&'static str>, &'static str)>,
    parts: HashMap<&'static str, String>,
    values: &'a [(&'static str, String)],
    tables: &'a Tables,
    syntax: Syntax,
}

/// Files of another crate, which may include parts of a dialect, and what stands for the names in
/// them.
#[cfg(any(feature = "mysql", feature = "postgres"))]
#[derive(Clone, Copy, Debug, Default)]
pub struct Others<'a> {
    /// The contents of the files.
    pub files: &'a [&'static str],
    /// `("lock", "…")` for `{lock}`.
    pub values: &'a [(&'static str, &'a str)],
}

#[cfg(any(feature = "mysql", feature = "postgres"))]
impl Others<'_> {
    /// All files, those of the dialect first, so that a statement here stands for one of the same
    /// name there. Also adds the values.
    pub(crate) fn after(
        self,
        own: &[&'static str],
        values: &mut Vec<(&'static str, String)>,
    ) -> Vec<&'static str> {
        values.extend(self.values.iter().map(|(name, value)| (*name, (*value).to_owned())));
        [own, self.files].concat()
    }
}

/// A statement as it is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Statement {
    /// The text.
    pub(crate) text: String,
    /// Which argument each mark in the text stands for, counted from 0.
    pub(crate) order: Vec<usize>,
}

impl From<Statement> for SqlStr {
    /// The text is ours but for the tables' names, which were checked. Cloning it does not copy it.
    fn from(statement: Statement) -> Self {
        AssertSqlSafe(Arc::<str>::from(statement.text)).into_sql_str()
    }
}

/// Makes the struct `Statements` of a dialect, of statements of this type. `with_files` is the
/// dialect's, with what it needs besides the tables.
macro_rules! statements {
    ($type:ty, $with_files:ident($($more:expr)?): $($name:ident)*) => {
        /// The statements of one store.
        #[derive(Debug)]
        pub(super) struct Statements {
            $(pub(super) $name: $type,)*
        }

        impl Statements {
            pub(super) fn new(tables: &Tables) -> Self {
                $with_files(tables, $($more,)? |files| Self {
                    $($name: files.statement(stringify!($name)).into(),)*
                })
            }
        }
    };
}

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) use statements;

impl<'a> SqlFiles<'a> {
    /// Of the contents of files. `values` are what Rust computes for `{name}`.
    pub(crate) fn new(
        files: &[&'static str],
        values: &'a [(&'static str, String)],
        tables: &'a Tables,
        syntax: Syntax,
    ) -> Self {
        let mut all =
            Self { statements: HashMap::new(), parts: HashMap::new(), values, tables, syntax };
        for file in files {
            all.read(file);
        }
        all
    }

    fn read(&mut self, file: &'static str) {
        let is_heading =
            |text: &str| text.starts_with("-- name: ") || text.starts_with("-- part: ");
        let lines = iter::once(0).chain(file.match_indices('\n').map(|(at, _)| at + 1));
        let mut starts: Vec<_> = lines.filter(|at| is_heading(&file[*at..])).collect();
        starts.push(file.len());
        for section in starts.windows(2) {
            let text = &file[section[0]..section[1]];
            let (heading, text) = text.split_once('\n').unwrap_or((text, ""));
            if let Some(name) = heading.strip_prefix("-- part: ") {
                self.parts.insert(name, sent_lines(text));
            } else if let Some(heading) = heading.strip_prefix("-- name: ") {
                let (name, arguments) = heading.split_once('(').unwrap_or((heading, ""));
                let arguments = arguments.trim_end_matches(')').split(", ");
                let arguments = arguments.filter(|name| !name.is_empty()).collect();
                self.statements.insert(name, (arguments, text));
            }
        }
    }

    /// The statement under a heading. An empty one if there is no such heading, and the names of
    /// what is unknown stay in the text: a test of each dialect looks for both.
    #[must_use]
    pub(crate) fn statement(&self, name: &str) -> Statement {
        let Some((arguments, text)) = self.statements.get(name) else {
            return Statement::default();
        };
        self.with_arguments(&self.sent(text), arguments)
    }

    /// The SQL under a heading with its comments, for a person to read and a script to run.
    #[must_use]
    pub(crate) fn script(&self, name: &str) -> String {
        let text = self.statements.get(name).map_or("", |(_, text)| text);
        self.tables.fill(&self.filled(text, &mut Vec::new()), self.syntax.quote)
    }

    fn sent(&self, text: &str) -> String {
        self.tables.fill(&self.filled(&sent_lines(text), &mut Vec::new()), self.syntax.quote)
    }

    /// Puts parts and values in the places of their names. `within` are the parts around the text:
    /// a part does not include itself.
    fn filled(&self, text: &str, within: &mut Vec<&'static str>) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            filled.push_str(before);
            let Some((name, after)) = after.split_once('}') else {
                filled.push('{');
                rest = after;
                continue;
            };
            let value = self.values.iter().find(|(known, _)| *known == name);
            let part = self.parts.get_key_value(name).filter(|(name, _)| !within.contains(name));
            match (value, part) {
                (Some((_, value)), _) => filled.push_str(value),
                (None, Some((name, part))) => {
                    within.push(name);
                    filled.push_str(&self.filled(part, within));
                    within.pop();
                }
                (None, None) => filled.extend(["{", name, "}"]),
            }
            rest = after;
        }
        filled.push_str(rest);
        filled
    }

    fn with_arguments(&self, text: &str, arguments: &[&str]) -> Statement {
        let mut sent = Statement::default();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            sent.text.push_str(before);
            let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (name, after) = after.split_at(end.unwrap_or(after.len()));
            match arguments.iter().position(|known| *known == name) {
                Some(at) => {
                    sent.text.push_str(&(self.syntax.argument)(at + 1));
                    sent.order.push(at);
                }
                None => sent.text.extend(["$", name]),
            }
            rest = after;
        }
        sent.text.push_str(rest);
        sent
    }

    /// All statements as they are sent, in the order of their names, without the markers of guards,
    /// and without those that make tables.
    #[cfg(test)]
    pub(crate) fn as_sent(&self) -> String {
        let mut names: Vec<_> =
            self.statements.keys().filter(|name| !name.ends_with("schema")).collect();
        names.sort_unstable();
        let one = |name: &&&'static str| {
            let arguments = self.statements[**name].0.join(", ");
            let text = self.statement(name).text;
            let lines = text.lines().filter_map(|line| match line.split_once(MARKER) {
                Some((before, _)) => (!before.trim().is_empty()).then(|| before.trim_end()),
                None => Some(line),
            });
            format!("-- {name}({arguments})\n{};\n", lines.collect::<Vec<_>>().join("\n"))
        };
        names.iter().map(one).collect::<Vec<_>>().join("\n")
    }
}

const MARKER: &str = "-- guard: ";

/// The lines of a text that are sent. Of the marker of a guard that is only the name.
fn sent_lines(text: &str) -> String {
    let sent = |line: &'_ str| {
        let bare = line.trim_start();
        if bare.starts_with(MARKER) {
            let end = line.find(" |").map_or(line.len(), |at| at + 2);
            return Some(line[..end].to_owned());
        }
        (!bare.is_empty() && !bare.starts_with("--")).then(|| line.to_owned())
    };
    text.lines().filter_map(sent).collect::<Vec<_>>().join("\n")
}

/// Compares the statements with those in `src/DIALECT/statements.sql`, which people read and
/// explain. Nothing is left in them to fill in. If LEASEHOLD_WRITE is set, writes the file.
#[cfg(test)]
pub(crate) fn assert_on_record(dialect: &str, sent: &str) {
    let path = format!("{}/src/{dialect}/statements.sql", env!("CARGO_MANIFEST_DIR"));
    let sent = format!("-- What leasehold sends, with the default names of the tables.\n\n{sent}");
    let filled = sent.lines().filter(|line| !line.starts_with("-- "));
    for line in filled {
        // But for PostgreSQL's `format`, which has `%1$s`.
        let named = |(at, _): (usize, &str)| {
            line[at + 1..].starts_with(|c: char| c.is_alphabetic())
                && !line[..at].ends_with(|c: char| c.is_numeric())
        };
        let unknown = line.contains(['{', '}']) || line.match_indices('$').any(named);
        assert!(!unknown, "{line:?} has a name that nothing fills in");
    }
    if std::env::var_os("LEASEHOLD_WRITE").is_some() {
        std::fs::write(&path, &sent).unwrap();
    }
    let on_record = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        on_record == sent,
        "{path} is not what is sent; LEASEHOLD_WRITE=1 cargo test -p leasehold-sql --lib on_record writes it"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
-- About the file.

-- name: release(name, owner)
-- What it does to {locks}.
UPDATE {locks} SET owner = NULL
WHERE name = $name
    -- guard: owner | S4 | case | AND $owner <> ''
    -- guard: held | S1 |
    --   case
    AND {is_held} AND {is_held}

-- part: is_held
-- Why.
owner = $owner AND expires > {now}

-- name: clock
SELECT {now}, '$[0]', {unknown}
";

    fn files(argument: fn(usize) -> String) -> [Statement; 3] {
        let tables = Tables::new("x").unwrap();
        let values = [("now", "clock()".to_owned())];
        let files = SqlFiles::new(&[FILE], &values, &tables, Syntax { quote: '"', argument });
        ["release", "clock", "other"].map(|name| files.statement(name))
    }

    #[test]
    fn arguments_and_parts_are_named() {
        let [release, clock, other] = files(|at| format!("${at}"));
        let held = "owner = $2 AND expires > clock()";
        let text = format!(
            "UPDATE \"x_locks\" SET owner = NULL\nWHERE name = $1\n    -- guard: owner |\n    -- guard: held |\n    AND {held} AND {held}"
        );
        assert_eq!(release, Statement { text, order: vec![0, 1, 1] });
        assert_eq!(clock.text, "SELECT clock(), '$[0]', {unknown}");
        assert_eq!(other, Statement::default());
    }

    #[test]
    fn marks_may_have_no_numbers() {
        let [release, ..] = files(|_| "?".to_owned());
        assert!(release.text.starts_with("UPDATE \"x_locks\" SET owner = NULL\nWHERE name = ?\n"));
        assert_eq!(release.order, [0, 1, 1]);
    }
}
