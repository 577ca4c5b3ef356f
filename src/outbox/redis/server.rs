//! What a server says of itself, and whether it can be trusted with jobs.

use crate::model::{Failure, FailureKind};

/// The first version whose scripts can say that they may run when memory is full.
const OLDEST: u32 = 7;

/// The answer to `INFO`.
#[derive(Debug)]
pub(super) struct Told(pub(super) String);

impl Told {
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let mut lines = self.0.lines();
        lines
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.value(name)?.parse().ok()
    }

    /// Checks that the server's version is one that we can use.
    ///
    /// # Errors
    /// `Refused` when it is too old.
    pub(super) fn check_version(&self, place: &str) -> Result<(), Failure> {
        if let Some(version) = self.value("redis_version")
            && let Some(Ok(major)) = version.split('.').next().map(str::parse::<u32>)
            && major < OLDEST
        {
            return Err(Failure::new(
                FailureKind::Refused,
                format!("redis at {place} is version {version}"),
            )
            .hint(format!("the outbox needs version {OLDEST} or later")));
        }
        Ok(())
    }

    /// Checks that the server never throws keys away; returns what is to be known all the same, if anything.
    ///
    /// # Errors
    /// `Refused` when it may, unless that is allowed.
    pub(super) fn check_policy(
        &self,
        place: &str,
        allow_eviction: bool,
    ) -> Result<Option<String>, Failure> {
        match self.value("maxmemory_policy") {
            Some("noeviction") => Ok(None),
            Some(policy) => {
                let may =
                    format!("redis at {place} may throw jobs away: maxmemory-policy is {policy}");
                if allow_eviction {
                    return Ok(Some(may));
                }
                Err(Failure::new(FailureKind::Refused, may).hint("redis-cli CONFIG SET maxmemory-policy noeviction; or outbox.allow_eviction = true, if losing jobs until the next scan is no harm"))
            }
            None => Ok(Some(format!(
                "redis at {place} does not tell its maxmemory-policy; it must be noeviction"
            ))),
        }
    }
}
