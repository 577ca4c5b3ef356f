//! The loop: wait for events, look at what else may have changed, and drain when something is due.

use std::time::{Duration, Instant};

use super::ears::{Ears, Mode};
use super::ground::Ground;
use super::hand::{announce, announce_all, pages_below};
use super::heart::Heart;
use super::pending::Pending;
use super::source::{Event, Source};
use super::surroundings::{Git, Look};
use super::{End, Listener, Told, WatchOptions};
use crate::engine::alert::{END_WAIT, Event as Incident, Subject};
use crate::engine::drain::Run;
use crate::engine::gate::Gate;
use crate::engine::report::Trouble;
use crate::engine::spool;
use crate::engine::{Parts, Progress};
use crate::model::{Failure, FailureKind, PagePath, Timestamp};

/// How often the outbox, git and the settings are looked at: jobs that others enqueue wait no longer.
const LOOK: Duration = Duration::from_millis(500);
/// How long what makes the next sync fast is kept in hand after one.
const WARM: Duration = Duration::from_secs(5);
/// How often it is offered meanwhile to others who wait for it.
const OFFER: Duration = Duration::from_millis(50);
/// How long a git command under way is waited for at most.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often what is held is tried although nothing says that it would go now. Whatever a person does about it shows in
/// git's folder or its configuration, which are looked at all the time.
const RETRY_HELD: Duration = Duration::from_secs(30);
/// How soon a neighbour's lock is tried again.
const RETRY_BUSY: Duration = Duration::from_secs(1);

/// Why all is looked at when no other reason is known.
const MANY: &str = "more pages changed than are kept apart";
/// Why all is looked at when a `.gitignore` or its like changed: folders may be ours now that were none of ours.
const OTHER_RULES: &str = "what git ignores changed";

/// A watch under way.
pub(super) struct Watcher<'a> {
    options: &'a WatchOptions<'a>,
    /// `None` where another process drains.
    run: Option<Run<'a>>,
    ears: Ears,
    heart: Heart,
    pending: Pending,
    git: Option<Git>,
    /// How git stood when we last looked, and since when.
    look: Look,
    look_since: Instant,
    /// HEAD moved while an operation was under way.
    moved: bool,
    /// Git stands otherwise than when something was last tried.
    freed: bool,
    /// Whether the stores were opened and the pages scanned.
    begun: bool,
    /// All pages are to be looked at, and why.
    rescan: Option<&'static str>,
    /// When a pass is to be made although nothing new is known: something waits, or falls due.
    due: Option<Instant>,
    next_look: Instant,
    next_scan: Instant,
    retried: Instant,
    /// Nothing is tried before.
    not_before: Option<Instant>,
    outage: Gate,
    warm_until: Option<Instant>,
    ground: Ground,
    troubles: Vec<Trouble>,
}

impl<'a> Watcher<'a> {
    /// Arms everything; scans nothing yet.
    pub(super) fn start(
        parts: &mut Parts,
        source: Result<Box<dyn Source>, Failure>,
        options: &'a WatchOptions<'a>,
        listener: &mut dyn Listener,
    ) -> Result<Self, Failure> {
        let heart = Heart::start(&parts.state, options.enqueue_only)?;
        for store in &mut parts.stores {
            store.heed(&options.drain.stop);
        }
        let settings = &options.settings;
        let git = Git::of(parts.wiki.root(), &options.git_config);
        let now = Instant::now();
        let mut run = (!options.enqueue_only).then(|| Run::new(&options.drain, parts));
        if let Some(run) = &mut run {
            // Its next change is told; what is only written again and again is not brought more often than that.
            run.again = settings.windows.ceiling;
        }
        let mut watcher = Self {
            options,
            run,
            ears: Ears::new(source, settings.poll_every),
            heart,
            pending: Pending::new(settings.windows),
            look: git.as_ref().map(Git::look).unwrap_or_default(),
            git,
            look_since: now,
            moved: false,
            freed: false,
            begun: false,
            rescan: None,
            due: Some(now),
            next_look: now,
            next_scan: now + settings.scan_every,
            retried: now,
            not_before: None,
            outage: Gate::default(),
            warm_until: None,
            ground: Ground::new(parts, options),
            troubles: Vec::new(),
        };
        watcher.ears.open_all(&parts.wiki, options.ignored)?;
        watcher.tell_mode();
        listener.hear(&Told::Started {
            mode: watcher.ears.mode(),
            why: watcher.ears.why.as_ref(),
        });
        parts.alerts.begin(Timestamp::now());
        fail::fail_point!("watch.armed");
        Ok(watcher)
    }

    /// Goes on until it is told to stop, or what it works with is replaced.
    pub(super) fn run(
        mut self,
        parts: &mut Parts,
        listener: &mut dyn Listener,
    ) -> Result<End, Failure> {
        let mut events = Vec::new();
        let ended = loop {
            if self.options.drain.stop.is_wished() {
                break Ok(End::Stopped);
            }
            let wait = self.wait();
            self.listen(parts, wait, &mut events);
            if self.tell_mode() {
                listener.hear(&Told::Mode {
                    mode: self.ears.mode(),
                    why: self.ears.why.as_ref(),
                });
            }
            self.heart.beat();
            if Instant::now() >= self.next_look {
                self.next_look = Instant::now() + LOOK;
                if let Some(what) = self.ground.replaced(parts, self.options) {
                    break Ok(End::Again(what));
                }
                let looked = self.look_around(parts);
                if let Err(failure) = looked
                    && let Err(failure) = self.put_off(parts, failure, listener)
                {
                    break Err(failure);
                }
            }
            if self.is_due()
                && let Err(failure) = self.pass(parts, &mut events, listener)
                && let Err(failure) = self.put_off(parts, failure, listener)
            {
                break Err(failure);
            }
            self.cool(parts);
        };
        for store in &mut parts.stores {
            store.rest();
        }
        // What could not be delivered is told by `status`.
        parts.alerts.end(Timestamp::now(), END_WAIT);
        ended
    }

    /// How long there is nothing to do but to listen.
    fn wait(&self) -> Duration {
        let now = Instant::now();
        let mut next = self.next_look;
        if let Some(due) = self.pending.next_due().into_iter().chain(self.due).min() {
            // What keeps it from being done now is looked at as often as all else.
            let due = match self.not_before {
                Some(not_before) => due.max(not_before),
                None => due,
            };
            if due > now {
                next = next.min(due);
            } else if self.begun {
                let calm = self.look_since + self.options.settings.windows.quiet;
                next = next.min(calm.max(now + OFFER));
            }
        }
        if self.warm_until.is_some() {
            next = next.min(now + OFFER);
        }
        next.saturating_duration_since(now)
    }

    /// Hears what happened, and listens to folders that came.
    fn listen(&mut self, parts: &Parts, wait: Duration, events: &mut Vec<Event>) {
        self.ears.next(&parts.wiki, wait, events);
        let now = Instant::now();
        for event in events.drain(..) {
            match event {
                Event::Changed(path) => self.note(parts, &path, false, now),
                Event::Gone(path) => self.note(parts, &path, true, now),
                Event::Folder(folder) => self.folder_came(parts, &folder, now),
                Event::FolderGone(folder) => self.folder_went(parts, &folder, now),
                Event::Rescan(why) => {
                    self.heart.heard();
                    self.want_all(why, now);
                }
                Event::Canary | Event::Broken(_) => {}
            }
        }
    }

    fn note(&mut self, parts: &Parts, path: &str, gone: bool, now: Instant) {
        if parts.wiki.is_page(path)
            && let Ok(path) = PagePath::parse(path)
        {
            self.heart.heard();
            self.pending.note(path, gone, now);
        } else if let Some((folder, ".gitignore")) = path.rsplit_once('/')
            && parts.wiki.is_folder(folder)
        {
            self.want_all(OTHER_RULES, now);
        }
    }

    fn folder_came(&mut self, parts: &Parts, folder: &str, now: Instant) {
        if !parts.wiki.is_folder(folder) {
            return;
        }
        self.heart.heard();
        let Self { ears, pending, .. } = self;
        let opened = ears.open_folder(&parts.wiki, self.options.ignored, folder, &mut |path| {
            pending.note(path, false, now);
        });
        if opened.is_err() {
            self.want_all("a folder could not be read", now);
        }
    }

    fn folder_went(&mut self, parts: &Parts, folder: &str, now: Instant) {
        if !parts.wiki.is_folder(folder) {
            return;
        }
        self.heart.heard();
        self.ears.close_folder(folder);
        if folder == parts.wiki.pages_dir() {
            self.want_all("the pages' folder is gone", now);
            return;
        }
        let pending = &mut self.pending;
        let known = pages_below(parts, folder, &mut |path| pending.note(path, true, now));
        if known.is_err() {
            self.want_all("a folder went", now);
        }
    }

    fn want_all(&mut self, why: &'static str, now: Instant) {
        self.pending.note_all(now);
        self.rescan.get_or_insert(why);
    }

    fn tell_mode(&mut self) -> bool {
        let mode = self.ears.mode();
        let why = self.ears.why.as_ref();
        // Where the settings or the file system want it so, nobody is called.
        let chosen = why.is_some_and(|why| why.kind == FailureKind::Waiting);
        let degraded = mode != Mode::Events && !chosen;
        self.heart.set_mode(mode, why, degraded)
    }

    /// Looks at all that makes no events: git, the outbox, the clocks.
    fn look_around(&mut self, parts: &mut Parts) -> Result<(), Failure> {
        let now = Instant::now();
        if self.ground.slept(now) {
            self.want_all("the clock jumped: the machine slept", now);
        }
        if now >= self.next_scan {
            self.next_scan = now + self.options.settings.scan_every;
            self.want_all("it is time", now);
        }
        if self.ground.has_other_rules(self.options) {
            self.want_all(OTHER_RULES, now);
        }
        if self.git.is_none() {
            // A repository may be made at any time.
            self.git = Git::of(parts.wiki.root(), &self.options.git_config);
        }
        self.look_at_git(now);
        if self.run.is_some() && parts.state.hints()? > 0 {
            self.want_all("a hook left a hint", now);
        }
        if self.not_before.is_some_and(|then| now < then) {
            return Ok(());
        }
        if parts.state.keeps_jobs() {
            self.due.get_or_insert(now);
        }
        if self.run.is_none() {
            return Ok(());
        }
        let time = Timestamp::now();
        let counts = parts.outbox.counts(time)?;
        let left_behind = counts.in_flight > 0;
        let run = self.run.as_mut().expect("just seen");
        run.tell(parts)?;
        let next = run.next_due(parts, time, |_, _| true)?;
        if counts.waiting > 0 || left_behind || next.is_some_and(|next| next <= time) {
            self.due.get_or_insert(now);
        }
        if counts.held > 0 && (self.freed || self.retried.elapsed() >= RETRY_HELD) {
            self.due.get_or_insert(now);
        }
        Ok(())
    }

    fn look_at_git(&mut self, now: Instant) {
        let Some(git) = &self.git else { return };
        let look = git.look();
        if look == self.look {
            return;
        }
        let head_moved = look.head != self.look.head;
        let busy = look.busy;
        self.look = look;
        self.look_since = now;
        self.freed = true;
        self.moved |= head_moved;
        // In the midst of a rebase HEAD moves again and again; its end is what counts.
        if self.moved && !busy {
            self.moved = false;
            self.want_all("HEAD moved", now);
        }
    }

    /// Whether a pass is to be made now.
    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        if self.not_before.is_some_and(|then| now < then) {
            return false;
        }
        let pending = self.pending.next_due();
        let Some(due) = pending.into_iter().chain(self.due).min() else {
            return false;
        };
        if due > now {
            return false;
        }
        // A command that moves pages and HEAD together must not be caught half way.
        self.look_at_git(now);
        let calm = self.look_since + self.options.settings.windows.quiet;
        let is_calm = !self.look.locked && now >= calm;
        is_calm || !self.begun || now >= due + PATIENCE
    }

    /// Hands on what is due, and drains until nothing is.
    fn pass(
        &mut self,
        parts: &mut Parts,
        events: &mut Vec<Event>,
        listener: &mut dyn Listener,
    ) -> Result<(), Failure> {
        let began = Instant::now();
        self.due = None;
        self.not_before = None;
        if self.run.is_none() {
            return self.pass_on(parts, listener);
        }
        self.warm_until = None;
        if !self.begun {
            let run = self.run.as_mut().expect("seen above");
            run.begin(parts, &mut Beating(&mut self.heart, listener.progress()))?;
            self.begun = true;
        }
        loop {
            self.hand_on(parts, listener)?;
            let run = self.run.as_mut().expect("seen above");
            let mut progress = Beating(&mut self.heart, listener.progress());
            let did = run.work(parts, true, &mut progress)?;
            if self.options.drain.stop.is_wished() {
                break;
            }
            if did {
                self.listen(parts, Duration::ZERO, events);
                continue;
            }
            if !self.retry_held(parts)? {
                break;
            }
        }
        let run = self.run.as_mut().expect("seen above");
        let unspooled = run.unspooled.take();
        if unspooled.is_none() {
            self.outage.proved();
        }
        self.end_pass(parts, began, listener)?;
        unspooled.map_or(Ok(()), Err)
    }

    /// Announces what is due.
    fn hand_on(&mut self, parts: &mut Parts, listener: &mut dyn Listener) -> Result<(), Failure> {
        let run = self.run.as_mut().expect("only where we drain");
        let due = self.pending.take_due(Instant::now());
        let time = Timestamp::now();
        match announce(parts, &due, self.options.ignored, time) {
            Ok(handed) => {
                for (path, _) in &due.pages {
                    run.seen_gone.remove(path);
                }
                run.seen_gone.extend(handed.gone);
            }
            Err(failure) => {
                self.pending.put_back(due, Instant::now());
                return Err(failure);
            }
        }
        if due.all {
            let why = self.rescan.take().unwrap_or(MANY);
            listener.hear(&Told::Rescan { why });
            let mut progress = Beating(&mut self.heart, listener.progress());
            // Folders that came may be among what was not told.
            let armed = self.ears.arm_all(&parts.wiki, self.options.ignored);
            let looked = armed.and_then(|()| run.rescan(parts, &mut progress));
            if let Err(failure) = looked {
                self.want_all(why, Instant::now());
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Lets go on what is held, when something may have changed for it; says whether there was any.
    fn retry_held(&mut self, parts: &mut Parts) -> Result<bool, Failure> {
        if !self.freed && self.retried.elapsed() < RETRY_HELD {
            return Ok(false);
        }
        self.freed = false;
        self.retried = Instant::now();
        let run = self.run.as_mut().expect("only where we drain");
        run.retry_held(parts)
    }

    fn end_pass(
        &mut self,
        parts: &mut Parts,
        began: Instant,
        listener: &mut dyn Listener,
    ) -> Result<(), Failure> {
        let run = self.run.as_mut().expect("only where we drain");
        listener.progress().over();
        let report = run.take_report(parts, began)?;
        let pages = std::mem::take(&mut run.brought);
        run.forget_pass(report.held == 0);
        let took = report.stores.values().any(|s| s.applied + s.removed > 0);
        let did = report.processed + report.dlq + report.retried + report.forgotten > 0
            // A page that one store refuses was brought to the others.
            || (report.held > 0 && took);
        let new_trouble = report.trouble.iter().any(|one| {
            let mut known = self.troubles.iter();
            !known.any(|known| known.reason == one.reason && known.store == one.store)
        });
        if did || new_trouble || report.scanned > 0 {
            listener.hear(&Told::Synced {
                report: &report,
                pages: &pages,
            });
        }
        if new_trouble || report.held == 0 {
            self.troubles.clone_from(&report.trouble);
        }
        // What we did ourselves is no reason to look again; what somebody did meanwhile is.
        if let Some(git) = &self.git {
            let look = git.look();
            if report.commit.as_ref() == Some(&look.head) {
                self.look = look;
            }
        }
        self.warm_until = Some(Instant::now() + WARM);
        Ok(())
    }

    /// Announces what is due to whoever drains.
    fn pass_on(&mut self, parts: &mut Parts, listener: &mut dyn Listener) -> Result<(), Failure> {
        let mut due = self.pending.take_due(Instant::now());
        if due.all && self.begun {
            let why = self.rescan.unwrap_or(MANY);
            listener.hear(&Told::Rescan { why });
        }
        due.all |= !self.begun;
        let time = Timestamp::now();
        let ignored = self.options.ignored;
        let kept = spool::hand_over(&parts.state, parts.outbox.as_mut(), time);
        let announced = kept.and_then(|kept| {
            let mut jobs = kept.new + kept.merged;
            jobs += announce(parts, &due, ignored, time)?.jobs;
            if due.all {
                self.ears.arm_all(&parts.wiki, ignored)?;
                jobs += announce_all(parts, time)?;
            }
            Ok(jobs)
        });
        match announced {
            Ok(jobs) => {
                self.begun = true;
                if due.all {
                    self.rescan = None;
                }
                self.outage.proved();
                if jobs > 0 {
                    listener.hear(&Told::Enqueued { jobs });
                }
                Ok(())
            }
            Err(failure) => {
                self.pending.put_back(due, Instant::now());
                Err(failure)
            }
        }
    }

    /// Puts off what cannot be done now. What no waiting mends is handed back.
    fn put_off(
        &mut self,
        parts: &mut Parts,
        failure: Failure,
        listener: &mut dyn Listener,
    ) -> Result<(), Failure> {
        let now = Instant::now();
        let wait = match failure.kind {
            FailureKind::Busy => RETRY_BUSY,
            FailureKind::Down => {
                let time = Timestamp::now();
                let event = Incident::Away {
                    subject: Subject::Drain,
                    failure: failure.clone(),
                };
                parts.alerts.note(&event, time);
                self.outage.shut(failure.clone(), &parts.policy, time);
                let probe = self.outage.probe_at(time);
                probe.map_or(RETRY_BUSY, |probe| time.until(probe))
            }
            FailureKind::Waiting
            | FailureKind::Refused
            | FailureKind::Transient
            | FailureKind::Rejected => return Err(failure),
        };
        self.not_before = Some(now + wait);
        self.due = Some(now + wait);
        if !self.options.drain.stop.is_wished() {
            listener.hear(&Told::Trouble(&failure));
        }
        Ok(())
    }

    /// Offers what is kept in hand to others, and lets go of it after a while.
    fn cool(&mut self, parts: &mut Parts) {
        let Some(until) = self.warm_until else { return };
        let over = Instant::now() >= until;
        for store in &mut parts.stores {
            if over {
                store.park();
            } else {
                store.yield_turn();
            }
        }
        if over {
            self.warm_until = None;
        }
    }
}

/// Progress that keeps the heart beating in a long pass.
struct Beating<'b>(&'b mut Heart, &'b mut dyn Progress);

impl Progress for Beating<'_> {
    fn at(&mut self, what: &'static str, done: u64, total: u64) {
        self.0.beat();
        self.1.at(what, done, total);
    }

    fn waits(&mut self, why: &str) {
        self.0.beat();
        self.1.waits(why);
    }
}
