//! What Redis may say, by kind. Nothing it says judges a page.

use std::error::Error;
use std::io;
use std::sync::Arc;

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::model::{Failure, FailureKind};

/// Sorts an error into its kind. `place` is the server's address, without a password.
pub(super) fn failure(doing: &str, place: &str, error: &RedisError) -> Failure {
    let (kind, hint) = sort(error);
    let failure = Failure::from_error(kind, &format!("{doing} (redis at {place})"), error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Says whether the connection is of no use any more: the next call makes a new one.
pub(super) fn ends_connection(error: &RedisError) -> bool {
    // After a failover the name may lead to the new primary.
    error.is_io_error()
        || error.is_unrecoverable_error()
        || matches!(
            error.kind(),
            ErrorKind::Parse
                | ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown)
        )
        || matches!(code(error).as_str(), "NOAUTH" | "WRONGPASS")
}

const PASSWORD: &str = "put user and password into outbox.url: redis://user:password@host:6379/0; an environment variable keeps it out of the file";
const CLUSTER: &str = "give the address of a server that holds the keys itself; a cluster's redirections are not followed, and outbox.dead_key must share the slot, as in \"{deep-wiki:outbox}:dlq\"";
const REPLICA: &str =
    "it is a replica, which takes no writes: put the primary's address into outbox.url";
const LATER: &str = "start the server, or wait for it, and try again";

type Sorted = (FailureKind, Option<&'static str>);

fn sort(error: &RedisError) -> Sorted {
    use FailureKind::{Down, Refused};
    match error.kind() {
        ErrorKind::Io => match io_kind(error) {
            // A certificate that cannot be trusted, or a port that speaks no TLS.
            Some(io::ErrorKind::InvalidData) => (
                Refused,
                Some("check the server's certificate, or write redis:// instead of rediss://"),
            ),
            Some(_) | None => (Down, Some(LATER)),
        },
        // Bytes that are no Redis protocol: cut off in the middle, or something else listens there.
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => {
            (Down, Some("check that outbox.url names a Redis server"))
        }
        ErrorKind::AuthenticationFailed => (Refused, Some(PASSWORD)),
        ErrorKind::InvalidClientConfig | ErrorKind::Client | ErrorKind::RESP3NotSupported => {
            (Refused, Some("correct outbox.url"))
        }
        ErrorKind::Server(kind) => sort_server(kind, error),
        ErrorKind::Extension => sort_code(&code(error)),
        // Of sentinels and cluster clients, which we are not. The list may grow with the library; what is new is no
        // reason to give up.
        _ => (Down, None),
    }
}

fn sort_server(kind: ServerErrorKind, error: &RedisError) -> Sorted {
    use FailureKind::{Down, Refused};
    match kind {
        ServerErrorKind::BusyLoading
        | ServerErrorKind::TryAgain
        | ServerErrorKind::ClusterDown
        | ServerErrorKind::MasterDown
        | ServerErrorKind::ExecAbort
        | ServerErrorKind::NoScript
        | ServerErrorKind::NotBusy
        | ServerErrorKind::NoSub => (Down, Some(LATER)),
        ServerErrorKind::ReadOnly => (Down, Some(REPLICA)),
        ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::CrossSlot => {
            (Refused, Some(CLUSTER))
        }
        ServerErrorKind::NoPerm => (
            Refused,
            Some(
                "the user in outbox.url needs the commands and keys of the outbox: ~deep-wiki:outbox* ~{deep-wiki:outbox}* +@all",
            ),
        ),
        ServerErrorKind::ResponseError => {
            if error.to_string().contains("max number of clients") {
                (Down, Some(LATER))
            } else {
                // A database that does not exist, a command that is unknown: it will not mend itself.
                (Refused, None)
            }
        }
        // As above.
        _ => (Down, None),
    }
}

/// Sorts by the word that the server's answer begins with, where the library knows no kind for it.
fn sort_code(code: &str) -> Sorted {
    use FailureKind::{Down, Refused};
    match code {
        "OOM" => (
            Down,
            Some("the server is full: raise maxmemory, or let `wiki-sync drain` empty the queue"),
        ),
        "MISCONF" | "NOREPLICAS" => (
            Down,
            Some("the server takes no writes at present: its log says why"),
        ),
        "NOAUTH" | "WRONGPASS" => (Refused, Some(PASSWORD)),
        "DENIED" => (
            Refused,
            Some("the server only takes local connections: see its protected-mode"),
        ),
        "WRONGTYPE" => (
            Refused,
            Some(
                "another program uses a key of this name: set outbox.key or outbox.dead_key, whichever it is, to a name of its own",
            ),
        ),
        // BUSY (a script of somebody runs for long) and whatever else: it may pass.
        _ => (Down, Some(LATER)),
    }
}

/// Returns the word that the server's answer begins with; of several answers, the first one's.
fn code(error: &RedisError) -> String {
    match error.code() {
        Some(code) => code.to_owned(),
        None => error
            .clone()
            .into_server_errors()
            .and_then(|errors| errors.first().map(|(_, error)| error.code().to_owned()))
            .unwrap_or_default(),
    }
}

fn io_kind(error: &RedisError) -> Option<io::ErrorKind> {
    // The library hands out the pointer to its error, not the error.
    let shared: &Arc<dyn Error + Send + Sync> = error.source()?.downcast_ref()?;
    shared.downcast_ref().map(io::Error::kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(answer: &str) -> RedisError {
        redis::parse_redis_value(format!("-{answer}\r\n").as_bytes())
            .and_then(redis::Value::extract_error)
            .expect_err("an error")
    }

    #[test]
    fn each_answer_has_its_kind() {
        use FailureKind::{Down, Refused};
        for (answer, kind) in [
            ("LOADING Redis is loading the dataset in memory", Down),
            (
                "READONLY You can't write against a read only replica.",
                Down,
            ),
            ("MISCONF Redis is configured to save RDB snapshots", Down),
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                Down,
            ),
            ("BUSY Redis is busy running a script.", Down),
            ("CLUSTERDOWN Hash slot not served", Down),
            ("MASTERDOWN Link with MASTER is down", Down),
            ("TRYAGAIN Multiple keys request during rehashing", Down),
            ("NOREPLICAS Not enough good replicas to write.", Down),
            ("ERR max number of clients reached", Down),
            ("EXECABORT Transaction discarded", Down),
            ("SOMETHING that is new", Down),
            ("NOAUTH Authentication required.", Refused),
            ("WRONGPASS invalid username-password pair", Refused),
            ("NOPERM this user has no permissions", Refused),
            ("WRONGTYPE Operation against a key", Refused),
            ("DENIED Redis is running in protected mode", Refused),
            ("MOVED 3999 127.0.0.1:6381", Refused),
            (
                "CROSSSLOT Keys in request don't hash to the same slot",
                Refused,
            ),
            ("ERR DB index is out of range", Refused),
        ] {
            let failure = failure("cannot claim jobs", "127.0.0.1:6379", &said(answer));
            assert_eq!(failure.kind, kind, "{failure}");
            assert!(failure.reason.contains("127.0.0.1:6379"), "{failure}");
        }
        let refused = RedisError::from(io::Error::from(io::ErrorKind::ConnectionRefused));
        assert_eq!(failure("x", "y", &refused).kind, Down);
        let untrusted = RedisError::from(io::Error::from(io::ErrorKind::InvalidData));
        assert_eq!(failure("x", "y", &untrusted).kind, Refused);
    }

    #[test]
    fn a_replica_is_told_as_one() {
        let error = said("READONLY You can't write against a read only replica.");
        let hint = failure("cannot claim jobs", "h", &error).hint;
        assert!(hint.expect("a hint").contains("the primary's address"));
    }
}
