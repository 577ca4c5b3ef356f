//! A look at the server and at what else uses it, for `doctor`: everything is told, nothing is changed, and what the server
//! does not let us see is no trouble.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use redis::{FromRedisValue, RedisError, RedisResult};

use super::RedisSettings;
use super::error::failure;
use super::link::Link;
use super::server::Told;
use super::wire::{Until, Wire};
use crate::model::{Failure, FailureKind, Finding, Timestamp};
use crate::outbox::dead_letters;

/// How far two clocks may be apart.
const SKEW_MS: u64 = 5_000;
/// From which part of its memory on a server is nearly full, in percent.
const NEARLY_FULL: u64 = 90;
/// What to do where nothing better is known.
const LOOK: &str = "see what `redis-cli INFO` and the server's log say";

/// The commands that take from a list. No wiki-sync sends one of them.
const TAKING: [&str; 10] = [
    "blpop",
    "brpop",
    "blmpop",
    "brpoplpush",
    "blmove",
    "lpop",
    "rpop",
    "lmpop",
    "rpoplpush",
    "lmove",
];

/// Looks at the server, for so long at most.
#[must_use]
pub fn examine(settings: RedisSettings, within: Duration) -> Vec<Finding> {
    let (list, dead_list) = (settings.key.clone(), settings.dead_key.clone());
    match Link::new(settings) {
        Ok(link) => {
            let end = Instant::now() + within;
            let look = Looking {
                link,
                list,
                dead_list,
                until: Until {
                    soft: end,
                    hard: Some(end),
                },
                found: Vec::new(),
            };
            look.all()
        }
        Err(failure) => vec![Finding::of("redis", &failure, "correct outbox.url")],
    }
}

struct Looking {
    link: Link,
    list: String,
    dead_list: String,
    until: Until,
    found: Vec<Finding>,
}

impl Looking {
    fn wrong(&self, error: &RedisError) -> Failure {
        failure("cannot ask", &self.link.place, error)
    }

    fn all(mut self) -> Vec<Finding> {
        let wire = Wire::connect(&self.link.to, self.until);
        let opened = wire.and_then(|mut wire| self.link.log_in(&mut wire).map(|()| wire));
        let mut wire = match opened {
            Ok(wire) => wire,
            Err(e) => {
                let failure = self.wrong(&e);
                self.found.push(Finding::of("redis", &failure, LOOK));
                return self.found;
            }
        };
        wire.wait_until(self.until);
        let steps = [
            Self::server,
            Self::keys,
            Self::letters,
            Self::clock,
            Self::consumers,
        ];
        for step in steps {
            // After one answer that never came no other will.
            if let Err(failure) = step(&mut self, &mut wire) {
                self.found.push(Finding::of("redis", &failure, LOOK));
                break;
            }
        }
        self.found
    }

    /// Asks; `None` when we may not.
    fn ask<T: FromRedisValue>(
        &self,
        wire: &mut Wire,
        words: &[&str],
    ) -> Result<Option<T>, Failure> {
        let mut command = redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(*word);
        }
        let answer: RedisResult<T> = command.query(wire);
        match answer {
            Ok(answer) => Ok(Some(answer)),
            // Where a command was taken away or renamed, the server says that it knows none of that name.
            Err(e) if e.code() == Some("NOPERM") || e.to_string().contains("unknown command") => {
                Ok(None)
            }
            Err(e) => Err(self.wrong(&e)),
        }
    }

    /// Whether dead letters rest.
    fn letters(&mut self, wire: &mut Wire) -> Result<(), Failure> {
        let list = self.dead_list.clone();
        match self.ask(wire, &["LLEN", &list])? {
            Some(number) => self.found.extend(dead_letters(number)),
            None => self.may_not("dead letters", "LLEN", "there may be some"),
        }
        Ok(())
    }

    fn may_not(&mut self, name: &'static str, command: &str, unknown: &str) {
        let place = &self.link.place;
        self.found.push(Finding::note(
            name,
            format!("redis at {place} does not let us ask {command}: {unknown}"),
            format!("let the user in outbox.url run it (`redis-cli ACL SETUSER … +{}`), or look yourself", command.to_lowercase().replace(' ', "|")),
        ));
    }

    /// Version, role, memory and what is kept over a restart.
    fn server(&mut self, wire: &mut Wire) -> Result<(), Failure> {
        let Some(told) = self.ask(wire, &["INFO"])?.map(Told) else {
            self.may_not(
                "redis",
                "INFO",
                "its version must be 7 or later, its maxmemory-policy noeviction",
            );
            return Ok(());
        };
        let place = self.link.place.clone();
        match told.check_version(&place) {
            Ok(()) => {
                let version = told.value("redis_version").unwrap_or("unknown");
                let what = format!("redis {version} at {place}");
                self.found.push(Finding::ok("redis", what));
            }
            Err(failure) => self.found.push(Finding::of("redis", &failure, LOOK)),
        }
        if told.value("role") == Some("slave") {
            self.found.push(Finding::fault(
                "redis",
                format!("redis at {place} is a replica, which takes no writes"),
                "put the primary's address into outbox.url",
            ));
        }
        if told.value("cluster_enabled") == Some("1") {
            self.found.push(Finding::warning(
                "redis",
                format!("redis at {place} is part of a cluster, whose redirections are not followed"),
                "set outbox.url to the server that holds the keys, and outbox.dead_key to a name in their slot, as in \"{deep-wiki:outbox}:dlq\"",
            ));
        }
        self.memory(&told, &place);
        self.persistence(wire, &told, &place)
    }

    fn memory(&mut self, told: &Told, place: &str) {
        const NAME: &str = "redis.memory";
        match told.check_policy(place, self.link.allow_eviction) {
            Ok(None) => {}
            Ok(Some(note)) => {
                let hint = "redis-cli CONFIG SET maxmemory-policy noeviction";
                self.found.push(Finding::warning(NAME, note, hint));
                return;
            }
            Err(failure) => {
                self.found.push(Finding::of(NAME, &failure, LOOK));
                return;
            }
        }
        let used = told.number("used_memory").unwrap_or_default();
        self.found.push(match told.number("maxmemory") {
            Some(most) if most > 0 && used.saturating_mul(100) / most >= NEARLY_FULL => {
                Finding::warning(
                    NAME,
                    format!("redis at {place} is nearly full: {used} of {most} bytes are in use"),
                    "raise it (`redis-cli CONFIG SET maxmemory …`), or let `wiki-sync drain` empty the queue",
                )
            }
            Some(_) | None => Finding::ok(NAME, "noeviction, and room is left"),
        });
    }

    fn persistence(&mut self, wire: &mut Wire, told: &Told, place: &str) -> Result<(), Failure> {
        const NAME: &str = "redis.persistence";
        const APPEND: &str =
            "redis-cli CONFIG SET appendonly yes; and `appendonly yes` in redis.conf";
        if told.value("aof_last_write_status") == Some("err")
            || told.value("rdb_last_bgsave_status") == Some("err")
        {
            self.found.push(Finding::fault(
                NAME,
                format!("redis at {place} could not write to its disk the last time: it may take no more jobs"),
                "look at the server's log, at the room on its disk, and at who may write there",
            ));
            return Ok(());
        }
        if told.value("aof_enabled") == Some("1") {
            self.found.push(Finding::ok(NAME, "appendonly"));
            return Ok(());
        }
        let saves: Option<BTreeMap<String, String>> = self.ask(wire, &["CONFIG", "GET", "save"])?;
        let Some(saves) = saves else {
            self.may_not(
                NAME,
                "CONFIG GET",
                "appendonly is off, and whether it writes snapshots is not known",
            );
            return Ok(());
        };
        let saves = saves.values().any(|save| !save.is_empty());
        let lost = "the pages are found again by the next scan, what producers said of them is not";
        self.found.push(if saves {
            Finding::note(
                NAME,
                format!("redis at {place} writes snapshots alone: a crash costs the jobs since the last; {lost}"),
                APPEND,
            )
        } else {
            Finding::warning(
                NAME,
                format!("redis at {place} keeps nothing over a restart: every job that waits is lost by one; {lost}"),
                APPEND,
            )
        });
        Ok(())
    }

    /// The keys' types, and whose they are.
    fn keys(&mut self, wire: &mut Wire) -> Result<(), Failure> {
        const NAME: &str = "redis.keys";
        let found = match self.link.check_keys(wire, "cannot look at the keys") {
            Ok(()) => Finding::ok(
                NAME,
                format!("{:?} and the keys beside it are ours", self.list),
            ),
            Err(failure) if failure.kind == FailureKind::Down => return Err(failure),
            Err(failure) => Finding::of(NAME, &failure, LOOK),
        };
        self.found.push(found);
        Ok(())
    }

    /// How far the server's clock is from ours.
    fn clock(&mut self, wire: &mut Wire) -> Result<(), Failure> {
        const NAME: &str = "redis.clock";
        let before = Timestamp::now();
        let told: Option<(i64, i64)> = self.ask(wire, &["TIME"])?;
        let after = Timestamp::now();
        let Some((seconds, micros)) = told else {
            self.may_not(NAME, "TIME", "no job can be claimed without it");
            return Ok(());
        };
        let theirs = seconds * 1000 + micros / 1000;
        let apart = if theirs < before.0 {
            theirs - before.0
        } else {
            (theirs - after.0).max(0)
        };
        let seconds = apart.unsigned_abs() / 1000;
        let way = if apart < 0 { "behind" } else { "ahead of" };
        self.found.push(if apart.unsigned_abs() > SKEW_MS {
            Finding::warning(
                NAME,
                format!("the clock of redis is {seconds} s {way} this machine's: times in `status` are moved by that; waits and leases go by the server's"),
                "set both by NTP: `timedatectl` says whether it is on",
            )
        } else {
            Finding::ok(NAME, "the same time as here")
        });
        Ok(())
    }

    /// Who else takes from lists: a job that another takes is lost until the next scan.
    fn consumers(&mut self, wire: &mut Wire) -> Result<(), Failure> {
        const NAME: &str = "redis.consumers";
        let told: Option<String> = self.ask(wire, &["CLIENT", "LIST"])?;
        let Some(told) = told else {
            self.may_not(
                NAME,
                "CLIENT LIST",
                "whether another program takes our jobs is not known",
            );
            return Ok(());
        };
        let db = self.link.login.db().to_string();
        let mut any = false;
        for client in told.lines().map(Client::read) {
            let command = client.value("cmd");
            if client.value("db") != db || !TAKING.contains(&command) {
                continue;
            }
            any = true;
            self.found.push(Finding::warning(
                NAME,
                format!(
                    "{} takes from a list by {}: if that is {:?} (Redis does not tell which), the jobs that it takes are lost until the next scan",
                    client.words(),
                    command.to_uppercase(),
                    self.list
                ),
                format!(
                    "stop the program behind it (`ss -tnp | grep {}` on its machine): an older worker, perhaps; to cut it off: redis-cli CLIENT KILL ID {}; then `wiki-sync drain`",
                    client.port(),
                    client.value("id")
                ),
            ));
        }
        if !any {
            self.found
                .push(Finding::ok(NAME, "no other program takes from lists there"));
        }
        Ok(())
    }
}

/// A client's line in the answer to `CLIENT LIST`.
struct Client<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Client<'a> {
    fn read(line: &'a str) -> Self {
        Self(
            line.split(' ')
                .filter_map(|word| word.split_once('='))
                .collect(),
        )
    }

    fn value(&self, name: &str) -> &'a str {
        let mut fields = self.0.iter();
        fields
            .find_map(|(field, value)| (*field == name).then_some(*value))
            .unwrap_or_default()
    }

    fn port(&self) -> &'a str {
        let address = self.value("addr");
        address.rsplit(':').next().unwrap_or(address)
    }

    /// Names it for people.
    fn words(&self) -> String {
        let named = match (self.value("name"), self.value("lib-name")) {
            ("", "") => String::new(),
            ("", name) | (name, _) => format!(" {name:?}"),
        };
        format!(
            "the client{named} at {} (connected for {} s)",
            self.value("addr"),
            self.value("age")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_read_from_its_line() {
        let client = Client::read(
            "id=7 addr=[::1]:50282 laddr=[::1]:6379 fd=9 name= age=12 idle=3 flags=b db=0 cmd=blpop user=default lib-name=redis-py lib-ver=5",
        );
        assert_eq!((client.value("id"), client.port()), ("7", "50282"));
        assert_eq!(client.value("flags"), "b");
        assert_eq!(
            client.words(),
            "the client \"redis-py\" at [::1]:50282 (connected for 12 s)"
        );
    }
}
