//! One group of claimed jobs, from reading the pages to settling the jobs.

use std::collections::HashSet;
use std::sync::Arc;

use super::apply::Steps;
use super::drain::Run;
use super::scan::{Accident, MASS, Scan};
use super::verdict::{ABSENT, hold};
use super::{Parts, Progress, Silent};
use crate::model::{Failure, FailureKind, Labels, Page, PagePath, StoreName, Timestamp};
use crate::outbox::{Claimed, DeadLetter, Settle};
use crate::state::FileSeen;
use crate::stores::{Outcome, Store};
use crate::wiki::Reading;

/// Bytes of pages read at a time; what is claimed beyond that waits for the next group.
const GROUP_BYTES: usize = 32 << 20;
/// Deaths under a page's own mark that make it poison.
const POISON: u32 = 3;
/// Workers that died with a job in their hands, although each look at it alone went well, before it is applied alone too.
const STUBBORN: u32 = 20;

/// One claimed job on its way through the group.
pub(super) struct Errand {
    pub(super) claim: Claimed,
    pub(super) work: Work,
    /// The page's dead letter, where it is about what is to be done: the stores that it stands for are passed over.
    pub(super) letter: Option<DeadLetter>,
    /// Per store, in the order of the stores; `None` where it had nothing to do.
    pub(super) outcomes: Vec<Option<Outcome>>,
}

impl Errand {
    /// Whether any store was changed for it.
    pub(super) fn has_changed(&self) -> bool {
        let outcomes = self.outcomes.iter().flatten().flatten();
        outcomes.into_iter().any(|applied| applied.changed)
    }
}

/// What is to be done for a job.
pub(super) enum Work {
    /// The page is there.
    Put { page: Arc<Page>, seen: FileSeen },
    /// The page is gone.
    Remove,
    /// The file is no longer a page by the settings: the stores that derive something of pages forget it, and git,
    /// where it is a file like any other, is left alone.
    Forget,
    /// It ends without any store.
    Over(End),
    /// It ends without any store, swallowed by the page's resting dead letter, which stands for all.
    Rests,
}

/// How a job ends that did not reach every store.
#[derive(Clone)]
pub(super) struct End {
    pub(super) settle: Settle,
    /// The store that had something against it, where it was one.
    pub(super) store: Option<StoreName>,
    /// What is to be reported; `None` for a page that is merely looked at again.
    pub(super) why: Option<Failure>,
}

/// The visit of one group.
pub(super) struct Visit<'r, 'o, 'p> {
    pub(super) run: &'r mut Run<'o>,
    pub(super) parts: &'p mut Parts,
    pub(super) now: Timestamp,
}

impl<'r, 'o, 'p> Visit<'r, 'o, 'p> {
    pub(super) fn new(run: &'r mut Run<'o>, parts: &'p mut Parts) -> Self {
        Self {
            run,
            parts,
            now: Timestamp::now(),
        }
    }

    /// Looks at a job that was found in dead hands alone, under a mark that outlives this process: its page is parsed
    /// and what the stores hold of it is derived, but nothing is applied, so that it costs little. After [`STUBBORN`]
    /// deaths it is brought alone to the stores that derive something of it, under the mark too. The mark is off again
    /// before anything is committed or settled; survived, the page's deaths are forgotten. Returns the job for its
    /// group, or `None` when it was poison: three workers in a row died under its mark with this content.
    pub(super) fn suspect(mut self, claim: Claimed) -> Result<Option<Claimed>, Failure> {
        let path = claim.job.path.clone();
        let Ok(Some(stat)) = self.parts.wiki.stat(&path) else {
            return Ok(Some(claim));
        };
        let version = stat.version();
        if self.parts.receipts.deaths(&path, &version)? >= POISON {
            let content = match self.parts.wiki.read(&path) {
                Reading::Page { sha, .. } => sha.to_string(),
                Reading::Absent | Reading::Bad { .. } => version,
            };
            let poison = Failure::new(
                FailureKind::Rejected,
                format!("page {:?} killed its worker {POISON} times", path.as_str()),
            )
            .hint("each time the process ended abruptly (killed, out of memory, a crash) with this page alone in hand; `wiki-sync dlq retry` gives it three more tries");
            let end = self.fail(&claim, None, content, &poison);
            let settle = self.count(&claim, end);
            self.run
                .end_jobs(self.parts, vec![(claim, settle)], self.now)?;
            // The letter remembers it; a person who says so has it tried anew.
            self.parts.receipts.forget_deaths(&path)?;
            return Ok(None);
        }
        self.parts.state.set_mark(&path, &version)?;
        fail::fail_point!("drain.suspect");
        let looked = self.look_alone(&claim);
        // Off before a failure is handed on: whoever hears of it is alive.
        self.parts.state.clear_mark()?;
        looked?;
        // It was survived, so those deaths were chance.
        self.parts.receipts.forget_deaths(&path)?;
        Ok(Some(claim))
    }

    /// Derives what the stores hold of a job's page; applies it only when looking was survived often enough.
    fn look_alone(&mut self, claim: &Claimed) -> Result<(), Failure> {
        let work = self.look(claim)?;
        let Work::Put { page, .. } = &work else {
            return Ok(());
        };
        let deriving = |store: &dyn Store| !store.is_witnessed();
        for store in &mut self.parts.stores {
            if deriving(store.as_ref()) {
                // What fails here fails again in the group, and is counted there.
                let _ = store.expected(page);
            }
        }
        if claim.recoveries > STUBBORN {
            let outcomes = self.parts.stores.iter().map(|_| None).collect();
            let mut alone = [Errand {
                letter: self.letter(&claim.job.path, &work),
                claim: claim.clone(),
                work,
                outcomes,
            }];
            self.apply(&mut alone, deriving, &mut Steps::new(&mut Silent, 0, 0))?;
        }
        Ok(())
    }

    /// Visits as many of the jobs as fit one group and returns the others. `total`: how many jobs there are for this run in
    /// all.
    pub(super) fn group(
        mut self,
        claims: Vec<Claimed>,
        total: u64,
        progress: &mut dyn Progress,
    ) -> Result<Vec<Claimed>, Failure> {
        self.note_labels(&claims)?;
        let mut errands = Vec::with_capacity(claims.len());
        let mut bytes = 0;
        let mut claims = claims.into_iter();
        while bytes < GROUP_BYTES
            && let Some(claim) = claims.next()
        {
            let work = self.look(&claim)?;
            if let Work::Put { page, .. } = &work {
                bytes += page.text.len();
            }
            let outcomes = self.parts.stores.iter().map(|_| None).collect();
            errands.push(Errand {
                letter: self.letter(&claim.job.path, &work),
                claim,
                work,
                outcomes,
            });
        }
        self.guard(&mut errands)?;
        let mut steps = Steps::new(progress, self.run.visited, total);
        self.apply(&mut errands, |_| true, &mut steps)?;
        self.run.visited += errands.len() as u64;
        self.settle(errands)?;
        Ok(claims.collect())
    }

    fn note_labels(&mut self, claims: &[Claimed]) -> Result<(), Failure> {
        let carried: Vec<(PagePath, Labels)> = claims
            .iter()
            .filter(|claim| {
                !claim.job.labels.is_empty() && self.parts.wiki.is_page(claim.job.path.as_str())
            })
            .map(|claim| (claim.job.path.clone(), claim.job.labels.clone()))
            .collect();
        self.parts.receipts.note_labels(&carried)
    }

    /// Reads the job's page and decides what is to be done.
    fn look(&mut self, claim: &Claimed) -> Result<Work, Failure> {
        let path = &claim.job.path;
        if !self.parts.wiki.is_page(path.as_str()) {
            if self.was_given(path)? {
                return Ok(Work::Forget);
            }
            let why = Failure::new(
                FailureKind::Rejected,
                format!("{:?} is not a page's path", path.as_str()),
            )
            .hint(format!(
                "pages lie below {}/ and match wiki.include",
                self.parts.wiki.pages_dir()
            ));
            return Ok(Work::Over(self.fail(claim, None, String::new(), &why)));
        }
        let reading = self.parts.wiki.read(path);
        let version = match &reading {
            Reading::Page { sha, .. } => sha.to_string(),
            Reading::Bad { version, .. } => version.clone(),
            Reading::Absent => ABSENT.into(),
        };
        if let Some(letter) = self.run.letters.get(path)
            && letter.is_about(&version, &self.run.fingerprint)
            && (self.parts.stores.iter()).all(|store| letter.stands_for(store.name()))
        {
            return Ok(Work::Rests);
        }
        match reading {
            Reading::Page {
                text,
                sha,
                stat,
                seen_at,
            } => {
                let labels = self.parts.receipts.labels(path)?;
                let page = Arc::new(Page::new(path.clone(), text, labels));
                let seen = FileSeen { stat, seen_at, sha };
                Ok(Work::Put { page, seen })
            }
            Reading::Absent => Ok(Work::Remove),
            Reading::Bad { failure, version } => {
                if failure.kind == FailureKind::Busy {
                    return Ok(Work::Over(self.go_round(claim, None, version, failure)));
                }
                Ok(Work::Over(self.fail(claim, None, version, &failure)))
            }
        }
    }

    /// The page's dead letter, where it rests and does not stand for all stores.
    fn letter(&self, path: &PagePath, work: &Work) -> Option<DeadLetter> {
        let version = match work {
            Work::Put { page, .. } => page.sha.to_string(),
            Work::Remove => ABSENT.into(),
            Work::Forget | Work::Over(_) | Work::Rests => return None,
        };
        let letter = self.run.letters.get(path)?;
        letter
            .is_about(&version, &self.run.fingerprint)
            .then(|| letter.clone())
    }

    /// Holds removals that look like an accident: judged anew for each group in which more pages would go than may
    /// go unasked, since the wiki may have vanished after the scan.
    fn guard(&mut self, errands: &mut [Errand]) -> Result<(), Failure> {
        let removals = errands
            .iter()
            .filter(|errand| matches!(errand.work, Work::Remove));
        let removals: Vec<_> = removals.map(|errand| &errand.claim.job.path).collect();
        if removals.is_empty() || self.run.options.allow_mass_delete {
            return Ok(());
        }
        // Seen to be removed one by one, they are meant; that the last page went, or the folder, is not believed.
        let seen = |path: &&&PagePath| self.run.seen_gone.contains(**path);
        let empty = self.parts.wiki.is_empty()?;
        let removals = removals.iter().filter(|path| empty || !seen(path));
        let removals = removals.count() as u64;
        if removals == 0 {
            return Ok(());
        }
        let folder = self.parts.wiki.root().join(self.parts.wiki.pages_dir());
        if self.run.findings.is_none()
            || self.run.removed + removals > MASS
            || empty
            || !folder.is_dir()
        {
            let mut scan = Scan {
                wiki: &self.parts.wiki,
                receipts: &self.parts.receipts,
                stores: &mut self.parts.stores,
                dead: &[],
                removed: self.run.removed,
            };
            self.run.findings = Some(scan.run(&mut |_, _| Ok(()), &mut |_| ())?);
        }
        let findings = self.run.findings.as_ref();
        let Some(Accident { gone, of }) = findings.and_then(|findings| findings.accident) else {
            return Ok(());
        };
        let head = self.head();
        for errand in errands
            .iter_mut()
            .filter(|errand| matches!(errand.work, Work::Remove))
        {
            let path = &errand.claim.job.path;
            if !empty && self.run.seen_gone.contains(path) {
                continue;
            }
            let held = match &head {
                Some(head) => head.contains(path),
                None => self.was_given(path)?,
            };
            if held {
                let why = Failure::new(
                    FailureKind::Waiting,
                    format!("{gone} of {of} pages are gone from disk while HEAD still holds them"),
                )
                .hint(format!(
                    "bring back what is gone: `git diff -z --name-only --diff-filter=D HEAD -- {} | xargs -0 git restore --source=HEAD --staged --worktree --`; if it is meant, commit the removal or run `wiki-sync drain --allow-mass-delete`",
                    self.parts.wiki.pages_dir()
                ));
                errand.work = Work::Over(End {
                    store: Some(StoreName::Git),
                    settle: hold(StoreName::Git, ABSENT.into(), &why),
                    why: Some(why),
                });
            }
        }
        Ok(())
    }

    /// The pages that the witnessed stores hold now; `None` where no store can say.
    fn head(&mut self) -> Option<HashSet<PagePath>> {
        let mut head = None;
        for store in &mut self.parts.stores {
            if let Ok(Some(holds)) = store.witness() {
                let paths = holds.into_iter().map(|(path, _)| path);
                head.get_or_insert_with(HashSet::new).extend(paths);
            }
        }
        head
    }

    /// Whether any store was given the page.
    fn was_given(&self, path: &PagePath) -> Result<bool, Failure> {
        for store in StoreName::ALL {
            if self.parts.receipts.get(store, path)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
