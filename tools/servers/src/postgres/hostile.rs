//! What a hostile role can create in a schema of another role's search path. Before PostgreSQL 15
//! every role could do so in `public`.

use std::collections::BTreeSet;

use super::Postgres;
use crate::error::Result;

/// The types that are tried for functions with three arguments: with all types there would be too
/// many.
const FEWER: [&str; 5] = ["text", "text[]", "bigint", "integer", "boolean"];

/// The functions and operators of all statements that the role `app` has sent. The role `hostile`
/// shadows them.
#[derive(Debug)]
pub struct Hostile {
    /// Each function, once with each number of arguments that it may have.
    pub functions: Vec<(String, usize)>,
    /// The symbols of the operators.
    pub operators: BTreeSet<String>,
}

impl Hostile {
    /// A line for the server's configuration: with it the server records each statement.
    pub const PRELOAD: &str = "shared_preload_libraries = 'pg_stat_statements'";
    /// A second line: the server also records statements inside functions.
    pub const TRACK: &str = "pg_stat_statements.track = all";
    /// Creates the roles, and a sequence. Each planted function advances the sequence when it runs.
    pub const ROLES: &str = "CREATE SCHEMA stats; CREATE EXTENSION pg_stat_statements SCHEMA stats; \
        CREATE ROLE app LOGIN; CREATE ROLE hostile LOGIN; GRANT CREATE ON SCHEMA public TO PUBLIC; \
        CREATE SEQUENCE ran; GRANT ALL ON ran TO PUBLIC";
    /// Asks whether a planted function ran: `f` or `t`.
    pub const RAN: &str = "SELECT is_called FROM ran";
    /// Takes away the right to run the planted functions. The server then refuses a statement that
    /// uses one before the statement begins, also if the function stands in a branch that is not
    /// taken.
    pub const REVOKE: &str =
        "SET ROLE hostile; REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC";

    /// Reads the statements that were sent since the server began.
    ///
    /// # Errors
    /// If the server does not answer, or was not started with [`PRELOAD`](Self::PRELOAD) and
    /// [`ROLES`](Self::ROLES).
    pub async fn seen(server: &Postgres) -> Result<Self> {
        let sent = "SELECT string_agg(query, E'\\n') FROM stats.pg_stat_statements AS s \
            JOIN pg_roles AS r ON r.oid = s.userid WHERE r.rolname = 'app'";
        let sent = server.sql(sent).await?;
        let words: BTreeSet<_> = sent
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .map(str::to_lowercase)
            .collect();
        let words = words.into_iter().collect::<Vec<_>>().join("','");
        let functions = format!(
            "SELECT DISTINCT proname || ' ' || pronargs FROM pg_proc \
             WHERE pronamespace = 'pg_catalog'::regnamespace AND proname IN ('{words}') \
             AND pronargs BETWEEN 1 AND 3"
        );
        let functions = server.sql(&functions).await?;
        let functions = functions.lines().filter_map(|line| line.split_once(' '));
        let functions = functions
            .filter_map(|(name, arity)| Some((name.to_owned(), arity.parse().ok()?)))
            .collect();
        // BETWEEN uses these two.
        let mut operators = BTreeSet::from(["<=".to_owned(), ">=".to_owned()]);
        for symbol in sent.split(|c: char| !"+-*/<>=~!@#%^&|`?".contains(c)) {
            // No comment, and no `->` of a cast.
            if !symbol.is_empty() && !symbol.contains("--") && !symbol.contains("/*") {
                operators.insert(symbol.to_owned());
            }
        }
        Ok(Self { functions, operators })
    }

    /// SQL by which `hostile` creates each operator for each pair of these types, and each
    /// function. PostgreSQL prefers such an operator or function to its own wherever its own is not
    /// an exact match. `types` are the types of the values and columns in the statements.
    #[must_use]
    pub fn planted(&self, types: &[&str]) -> String {
        let mut sql = String::from("SET ROLE hostile; SET check_function_bodies = off;");
        let mut plant = |name: &str, types: &[&str], returns: &str| {
            let types = types.join(", ");
            sql += &format!(
                "CREATE FUNCTION public.{name}({types}) RETURNS {returns} LANGUAGE plpgsql AS \
                 $$ BEGIN PERFORM nextval('public.ran'); RAISE EXCEPTION 'hostile: {name}({types})'; END $$;"
            );
        };
        for (name, arity) in &self.functions {
            for one in types {
                match arity {
                    1 => plant(name, &[one], "text"),
                    2 => types.iter().for_each(|two| plant(name, &[one, two], "text")),
                    _ if !FEWER.contains(one) => {}
                    _ => FEWER.iter().for_each(|two| {
                        FEWER.iter().for_each(|three| plant(name, &[one, two, three], "text"));
                    }),
                }
            }
        }
        for (at, symbol) in self.operators.iter().enumerate() {
            for left in types {
                for right in types {
                    let compares = symbol.contains(['<', '>', '=', '~']);
                    let function = format!("op_{at}");
                    plant(&function, &[left, right], if compares { "boolean" } else { left });
                }
            }
        }
        for (at, symbol) in self.operators.iter().enumerate() {
            for left in types {
                for right in types {
                    sql += &format!(
                        "CREATE OPERATOR public.{symbol} \
                         (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = public.op_{at});"
                    );
                }
            }
        }
        sql
    }
}
