//! The connection: made when it is needed, made anew after any trouble, every wait bounded.

use std::time::{Duration, Instant};

use redis::{
    ConnectionAddr, ConnectionInfo, FromRedisValue, IntoConnectionInfo as _, Pipeline,
    RedisConnectionInfo, RedisError, RedisResult, Value,
};
use tracing::debug;
use uuid::Uuid;

use super::error::{ends_connection, failure};
use super::keys::{Key, Keys};
use super::server::Told;
use super::wire::{Until, Wire};
use super::{RedisSettings, owner::Owner};
use crate::model::{Failure, FailureKind};

/// How long connecting may take in all, and each answer. No call of ours waits for something to happen, so an answer that
/// takes longer will not come.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long an answer may take that a line of half a gigabyte goes before, which is the longest that a server takes.
const LONG_PATIENCE: Duration = Duration::from_secs(40);

/// A server, and the connection to it while there is one.
pub(super) struct Link {
    pub(super) to: ConnectionAddr,
    /// User, password and database.
    pub(super) login: RedisConnectionInfo,
    /// The server's address, without user and password.
    pub(super) place: String,
    connection: Option<Wire>,
    /// How long one call may take in all.
    within: Option<Duration>,
    /// When the call under way must end.
    ends: Option<Instant>,
    /// The last answer was not there in time.
    pub(super) was_late: bool,
    pub(super) keys: Keys,
    owner: Owner,
    pub(super) allow_eviction: bool,
    /// Our mark of ownership, and the one that stands there and is ours all the same.
    pub(super) mark: String,
    pub(super) former_mark: Vec<u8>,
    notes: Vec<String>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

/// Reads a server's URL. What is wrong with it is told without its parts, one of which may be a password.
fn address(url: &str) -> Result<ConnectionInfo, String> {
    url.into_connection_info().map_err(|e| {
        format!(
            "cannot be read: {}; it looks like redis://user:password@host:6379/0 or unix:///path/to/socket?db=0, with special characters in a password written as %XX",
            e.category()
        )
    })
}

/// Says what is wrong with a server's URL.
///
/// # Errors
/// When it cannot be read.
pub(in crate::outbox) fn check_url(url: &str) -> Result<(), String> {
    address(url).map(drop)
}

impl Link {
    /// Takes the settings; the server is not asked yet.
    ///
    /// # Errors
    /// `Refused` when they cannot be used.
    pub(super) fn new(settings: RedisSettings) -> Result<Self, Failure> {
        if settings.url.starts_with("rediss") || settings.url.starts_with("valkeys") {
            // Fails when there is one already, which is as good.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let told = address(&settings.url)
            .map_err(|why| Failure::new(FailureKind::Refused, format!("outbox.url: {why}")))?;
        // Not the process's: each outbox counts its own changes.
        let sender = Uuid::new_v4().simple().to_string();
        Ok(Self {
            place: told.addr().to_string(),
            to: told.addr().clone(),
            login: told.redis_settings().clone(),
            connection: None,
            within: settings.within,
            ends: None,
            was_late: false,
            keys: Keys::around(&settings.key, &settings.dead_key, &sender)?,
            mark: settings.owner.mark(),
            former_mark: Vec::new(),
            owner: settings.owner,
            allow_eviction: settings.allow_eviction,
            notes: Vec::new(),
        })
    }

    /// Returns what the server does not let us see, if anything.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Begins a call of the outbox: the time that it may take in all counts from here.
    pub(super) fn begin(&mut self) {
        self.ends = self.within.map(|within| Instant::now() + within);
    }

    fn until(&self, patience: Duration) -> Until {
        Until {
            soft: Instant::now() + patience,
            hard: self.ends,
        }
    }

    /// Asks the server. `ask` must be safe to repeat: when an old connection turns out to be broken, it is asked once
    /// more on a new one.
    ///
    /// # Errors
    /// As [`failure`] sorts them.
    pub(super) fn ask<T>(
        &mut self,
        doing: &str,
        ask: impl FnMut(&mut Wire) -> RedisResult<T>,
    ) -> Result<T, Failure> {
        self.ask_for(doing, PATIENCE, ask)
    }

    /// As [`Self::ask`], about lines of any length: where `is_long`, one of them was too long last time.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(super) fn ask_about_lines<T>(
        &mut self,
        doing: &str,
        is_long: bool,
        ask: impl FnMut(&mut Wire) -> RedisResult<T>,
    ) -> Result<T, Failure> {
        let patience = if is_long { LONG_PATIENCE } else { PATIENCE };
        self.ask_for(doing, patience, ask)
    }

    fn ask_for<T>(
        &mut self,
        doing: &str,
        patience: Duration,
        mut ask: impl FnMut(&mut Wire) -> RedisResult<T>,
    ) -> Result<T, Failure> {
        let is_old = self.connection.is_some();
        match self.ask_once(doing, patience, &mut ask)? {
            Ok(value) => Ok(value),
            // Without an answer in time, another wait would not bring one either.
            Err(e) if is_old && self.connection.is_none() && !e.is_timeout() => {
                let again = self.ask_once(doing, patience, &mut ask)?;
                again.map_err(|e| failure(doing, &self.place, &e))
            }
            Err(e) => Err(failure(doing, &self.place, &e)),
        }
    }

    fn ask_once<T>(
        &mut self,
        doing: &str,
        patience: Duration,
        ask: &mut impl FnMut(&mut Wire) -> RedisResult<T>,
    ) -> Result<RedisResult<T>, Failure> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect(doing)?,
        };
        connection.wait_until(self.until(patience));
        let answer = ask(&mut connection);
        self.was_late = matches!(&answer, Err(e) if e.is_timeout());
        if !matches!(&answer, Err(e) if ends_connection(e)) {
            self.connection = Some(connection);
        }
        Ok(answer)
    }

    fn connect(&mut self, doing: &str) -> Result<Wire, Failure> {
        let wrong = |e: RedisError| failure(doing, &self.place, &e);
        let until = self.until(PATIENCE);
        let mut connection = Wire::connect(&self.to, until).map_err(wrong)?;
        self.log_in(&mut connection).map_err(wrong)?;
        self.check_server(&mut connection, doing)?;
        self.check_keys(&mut connection, doing)?;
        debug!(place = %self.place, "connected to redis");
        Ok(connection)
    }

    pub(super) fn log_in(&self, connection: &mut Wire) -> RedisResult<()> {
        let mut greeting = redis::pipe();
        if let Some(password) = self.login.password() {
            greeting
                .cmd("AUTH")
                .arg(self.login.username())
                .arg(password);
        }
        if self.login.db() != 0 {
            greeting.cmd("SELECT").arg(self.login.db());
        }
        Self::many::<Vec<Value>>(connection, &greeting).map(drop)
    }

    /// Sends several commands and returns their answers.
    pub(super) fn many<T: FromRedisValue>(
        connection: &mut Wire,
        commands: &Pipeline,
    ) -> RedisResult<T> {
        let count = commands.cmd_iter().count();
        if count > 0 {
            connection.send(&commands.get_packed_pipeline())?;
        }
        let mut answers = Vec::with_capacity(count);
        let mut wrong = None;
        for _ in 0..count {
            match connection.receive()? {
                Value::ServerError(error) => wrong = wrong.or(Some(error)),
                answer => answers.push(answer),
            }
        }
        match wrong {
            Some(error) => Err(error.into()),
            None => Ok(redis::from_redis_value(Value::Array(answers))?),
        }
    }

    /// As [`Self::many`], with nobody else's command between them; only for commands that read. A server whose memory is
    /// full refuses even reads inside a transaction, so there they are asked one by one.
    pub(super) fn at_once<T: FromRedisValue>(
        connection: &mut Wire,
        commands: &Pipeline,
    ) -> RedisResult<T> {
        match Self::transaction(connection, commands) {
            Err(e) if matches!(e.code(), Some("OOM" | "EXECABORT")) => {
                Self::many(connection, commands)
            }
            other => other,
        }
    }

    fn transaction<T: FromRedisValue>(
        connection: &mut Wire,
        commands: &Pipeline,
    ) -> RedisResult<T> {
        let mut all = redis::pipe();
        all.cmd("MULTI");
        for command in commands.cmd_iter() {
            all.add_command(command.clone());
        }
        all.cmd("EXEC");
        let mut answers: Vec<Value> = Self::many(connection, &all)?;
        let last = answers.pop().unwrap_or(Value::Nil);
        Ok(redis::from_redis_value(last)?)
    }

    /// Checks the server's version and that it never throws keys away.
    fn check_server(&mut self, connection: &mut Wire, doing: &str) -> Result<(), Failure> {
        self.notes.clear();
        let info: String = match redis::cmd("INFO").query(connection) {
            Ok(info) => info,
            Err(e) if e.code() == Some("NOPERM") => {
                self.notes.push(format!(
                    "redis at {} does not let us ask for its version and memory policy (INFO); it must be 7 or later with maxmemory-policy noeviction",
                    self.place
                ));
                return Ok(());
            }
            Err(e) => return Err(failure(doing, &self.place, &e)),
        };
        let told = Told(info);
        told.check_version(&self.place)?;
        let note = told.check_policy(&self.place, self.allow_eviction)?;
        self.notes.extend(note);
        Ok(())
    }

    /// Checks that the keys are ours: of the right types, and of this checkout.
    pub(super) fn check_keys(&mut self, connection: &mut Wire, doing: &str) -> Result<(), Failure> {
        let mut types = redis::pipe();
        for name in self.keys.all() {
            types.cmd("TYPE").arg(name);
        }
        let types: Vec<String> =
            Self::many(connection, &types).map_err(|e| failure(doing, &self.place, &e))?;
        for (key, is) in Key::ALL.into_iter().zip(&types) {
            if is != "none" && is != key.kind() {
                return Err(self.keys.wrong_type(self.keys.name(key), is));
            }
        }
        let name = self.keys.name(Key::Owner);
        let mark: Option<Vec<u8>> = redis::cmd("GET")
            .arg(name)
            .query(connection)
            .map_err(|e| failure(doing, &self.place, &e))?;
        if let Some(mark) = mark {
            self.owner.may_use(&mark, name)?;
            self.former_mark = mark;
        }
        Ok(())
    }

    /// Says what it means that the owner key holds another mark than it did.
    pub(super) fn other_owner(&mut self, mark: &[u8]) -> Failure {
        // The next connection judges anew.
        self.connection = None;
        match self.owner.may_use(mark, self.keys.name(Key::Owner)) {
            Err(failure) => failure,
            Ok(()) => Failure::new(
                FailureKind::Busy,
                "the outbox was taken over by this checkout's other state",
            ),
        }
    }

    /// Runs a script by its digest, or whole when the server does not know it (yet, or any more).
    pub(super) fn run<T: FromRedisValue>(
        connection: &mut Wire,
        script: &Script,
        load: impl Fn(&mut redis::Cmd),
    ) -> RedisResult<T> {
        let mut by_digest = redis::cmd("EVALSHA");
        by_digest.arg(&script.digest);
        load(&mut by_digest);
        match by_digest.query(connection) {
            Err(e) if e.code() == Some("NOSCRIPT") => {
                let mut whole = redis::cmd("EVAL");
                whole.arg(&script.text);
                load(&mut whole);
                whole.query(connection)
            }
            other => other,
        }
    }
}

/// A script and its digest.
#[derive(Debug)]
pub(super) struct Script {
    text: String,
    digest: String,
}

impl Script {
    pub(super) fn new(text: String) -> Self {
        use sha1::Digest as _;
        use std::fmt::Write as _;
        let mut digest = String::with_capacity(40);
        for byte in sha1::Sha1::digest(text.as_bytes()) {
            write!(digest, "{byte:02x}").expect("writing to a string cannot fail");
        }
        Self { text, digest }
    }
}
