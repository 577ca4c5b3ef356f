//! The fast look: believes the receipts, and asks the stores only who they are. It finds what the next drain would.

use super::judge::{Judge, Standing, standing};
use crate::engine::scan::{Look, Scan};
use crate::engine::{Parts, Progress};
use crate::model::Failure;

/// What it cannot see, for people.
const UNSEEN: [&str; 2] = [
    "what graph and vectors really hold: rows and points that others changed, and what is there without a receipt",
    "a page that was changed without a trace in its size, times and inode",
];

pub(super) fn look(
    parts: &mut Parts,
    judge: &mut Judge<'_>,
    progress: &mut dyn Progress,
) -> Result<(), Failure> {
    judge.report.unseen = UNSEEN.map(str::to_owned).to_vec();
    let mut stores = Vec::new();
    for at in 0..parts.stores.len() {
        let name = parts.stores[at].name();
        if !judge.options.includes(name) {
            continue;
        }
        match standing(parts, at, false) {
            Ok(Standing::Known) => stores.push((name, false)),
            Ok(Standing::None) => stores.push((name, true)),
            Ok(Standing::Replaced) => judge.report.replaced.push(name.as_str()),
            Err(failure) => judge.unread(Some(name), None, &failure),
        }
    }
    let options = judge.options;
    let within = &options.within;
    // Also of a page that is in sync there is something.
    for (from, to) in within.ranges() {
        if let Some(known) = parts.receipts.known_between(&from, &to, 1)?.first() {
            judge.meet(&known.path);
        }
    }
    let letters = parts.outbox.dead()?;
    let look = Look {
        within,
        stores,
        only: true,
    };
    let mut scan = Scan {
        wiki: &parts.wiki,
        receipts: &parts.receipts,
        stores: &mut parts.stores,
        dead: &letters,
        removed: 0,
    };
    let (findings, _) = scan.look(
        &look,
        &mut |path, _, owes| {
            judge.meet(path.as_str());
            for (store, kind) in owes {
                // What rests with a dead letter was left out.
                judge.differs(*store, path.as_str(), *kind, "");
            }
            Ok(())
        },
        &mut |pages| progress.at("verifying", pages, 0),
    )?;
    judge.report.pages = findings.pages;
    judge.report.renewals = findings.renewals;
    for skipped in findings.skipped {
        judge.skip(skipped);
    }
    for (store, failure) in findings.unasked {
        judge.unread(Some(store), None, &failure);
    }
    Ok(())
}
