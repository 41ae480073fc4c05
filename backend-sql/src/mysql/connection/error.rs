//! MySQL's and MariaDB's errors as ours:
//! <https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html>,
//! <https://mariadb.com/kb/en/mariadb-error-code-reference/>.

use lock_core::{Error, ErrorKind};
use sqlx::mysql::MySqlDatabaseError;

use crate::error::{Failure, NO_TABLES, USED_UP, general};

pub(crate) fn failure(error: sqlx::Error) -> Failure {
    let number = error
        .as_database_error()
        .and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>())
        .map(MySqlDatabaseError::number);
    let Some(number) = number else { return Failure::Error(general(error)) };
    let (kind, what) = match number {
        // A deadlock, a wait for a row that was too long, a row that was changed or made meanwhile:
        // a statement that is a transaction of its own was rolled back.
        1213 | 1205 | 1020 | 1062 => return Failure::Busy(error),
        1045 | 1698 => (ErrorKind::Auth, "the server refuses the user or the password"),
        1044 => (ErrorKind::Auth, "the user may not use this database, or there is none"),
        1130 => (ErrorKind::Auth, "the server takes no connections from this host"),
        1820 | 1862 => (ErrorKind::Auth, "the user's password has expired"),
        3118 | 4151 => (ErrorKind::Auth, "the user's account is locked"),
        3159 => (ErrorKind::Config, "the server demands TLS; set ssl-mode=required"),
        1142 | 1143 | 1227 => (ErrorKind::Auth, "the user may not use the tables"),
        1049 => (ErrorKind::Config, "there is no such database"),
        1046 => (ErrorKind::Config, "no database is named; name one, as in mysql://HOST/DATABASE"),
        1146 => (ErrorKind::Config, NO_TABLES),
        // A token above the largest number.
        1264 | 1690 => (ErrorKind::Config, USED_UP),
        1054 => (ErrorKind::Config, "the tables are not as this version makes them"),
        1064 | 1305 => (
            ErrorKind::Config,
            "the server does not understand a statement; it must be MySQL 8.0.4 or MariaDB 10.6, or later",
        ),
        1290 | 1792 | 1836 => {
            (ErrorKind::Unavailable, "the server takes no writes: is it a replica?")
        }
        // The server ended the session; it may have committed before.
        1053 | 1077 | 1079 | 1080 | 1152..=1161 | 1184 | 1927 | 4031 => {
            (ErrorKind::OutcomeUnknown, "the server ended the session")
        }
        1021 | 1037..=1041 | 1047 | 1114 | 1129 | 1135 | 1203 | 1206 | 1226 | 1637 => {
            (ErrorKind::Unavailable, "the server has run out of something, or is not ready")
        }
        // A failed commit, a global read lock, tables that were altered meanwhile, a conflict in a
        // group of servers.
        1180 | 1223 | 1412 | 1615 | 3101 => {
            (ErrorKind::Unavailable, "the server could not carry the statement out now")
        }
        1317 | 1969 | 3024 => (ErrorKind::Unavailable, "the server was told to end the statement"),
        _ => return Failure::Error(general(error)),
    };
    Failure::Error(Error::new(kind, what).with_source(error))
}
