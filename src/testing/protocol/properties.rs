//! What must hold, at every moment or whenever nobody runs.

use stateright::Property;

use super::Protocol;
use super::receipts::Receipt;
use super::state::{Broken, PAGES, State, Text};
use super::world::Bounds;
use crate::model::StoreName;

/// The promises, and for each thing that may happen the proof that it did.
pub(super) fn all(bounds: &Bounds) -> Vec<Property<Protocol>> {
    let mut all = vec![
        Property::always("no job is lost", |_, state: &State| {
            (0..PAGES).all(|page| {
                let slot = &state.outbox.pages[page];
                let claimed = |worker: &super::Worker| worker.claims[page].is_some();
                state.ghosts.unseen
                    || state.ghosts.edited[page]
                    || slot.is_owed()
                    || state.workers.iter().any(claimed)
                    || StoreName::ALL
                        .iter()
                        .all(|&store| state.rests(store, page) || state.holds(store, page))
            })
        }),
        Property::always("a receipt never lies", |_, state: &State| {
            [StoreName::Graph, StoreName::Vectors]
                .into_iter()
                .all(|store| {
                    let held = state.stores[store as usize];
                    let receipts = state.receipts.pages[store as usize];
                    let mut pages = receipts.iter().zip(held.pages);
                    !state.receipts.speak_of(store, held)
                        || pages.all(|(receipt, text)| match receipt {
                            Receipt::None => text == Text::Absent,
                            Receipt::Void => true,
                            Receipt::Holds(told) => *told == text,
                        })
                })
        }),
        Property::always(
            "one worker at a time is between claim and settle",
            |_, state: &State| {
                let workers = state.workers.iter();
                workers.filter(|worker| worker.step.is_in_batch()).count() <= 1
            },
        ),
        Property::always(
            "after the next scan every store holds what is on disk",
            |model: &Protocol, state: &State| {
                if !state.nobody_runs() {
                    return true;
                }
                let end = model.undisturbed(state, true);
                end.nobody_runs() && end.is_consistent() && end.ghosts.broken.is_none()
            },
        ),
        Property::always(
            "what was announced arrives without a scan",
            |model: &Protocol, state: &State| {
                let all_said = !state.ghosts.unseen && !state.ghosts.edited.contains(&true);
                if !state.nobody_runs() || !all_said {
                    return true;
                }
                let end = model.undisturbed(state, false);
                end.nobody_runs() && end.is_consistent()
            },
        ),
        Property::always("a lost token changes nothing", |_, state: &State| {
            state.ghosts.broken != Some(Broken::StraySettle)
        }),
        Property::always("quiet means consistent", |_, state: &State| {
            state.ghosts.broken != Some(Broken::FalseQuiet)
        }),
        Property::always("an ack is of what is on disk", |_, state: &State| {
            state.ghosts.broken != Some(Broken::FalseAck)
        }),
        Property::always("receipts are voided for a reason", |_, state: &State| {
            state.ghosts.broken != Some(Broken::FalseAlarm)
        }),
        Property::always("a dead letter rests", |_, state: &State| {
            state.ghosts.broken != Some(Broken::RestDisturbed)
        }),
        Property::always("a hold uses no attempt", |_, state: &State| {
            state.ghosts.broken != Some(Broken::HoldCounted)
        }),
    ];
    all.extend(seen(bounds));
    all
}

/// Shows that the bounds let happen what the promises are about.
fn seen(bounds: &Bounds) -> Vec<Property<Protocol>> {
    let mut seen = Vec::new();
    let mut when = |is: bool, property: Property<Protocol>| {
        if is {
            seen.push(property);
        }
    };
    when(
        bounds.edits > 0,
        Property::sometimes("every store holds an edit", |_, state: &State| {
            state.nobody_runs()
                && state.is_consistent()
                && state.disk[0] == Text::Two
                && !state.outbox.pages[0].is_owed()
        }),
    );
    when(
        bounds.outages > 0 && bounds.edits > 0,
        Property::sometimes("a job is held", |_, state: &State| state.outbox.holds_any()),
    );
    when(
        bounds.bad || bounds.faults > 1,
        Property::sometimes("a letter rests", |_, state: &State| {
            state.rests(StoreName::Vectors, 0) && state.nobody_runs()
        }),
    );
    when(
        bounds.leases > 0,
        Property::sometimes("a token is lost", |_, state: &State| {
            let claim = state.workers[0].claims[0].as_ref();
            let held_by = state.outbox.pages[0].in_flight.map(|(_, token)| token);
            claim.is_some_and(|claim| held_by != Some(claim.token))
        }),
    );
    when(
        bounds.kills > 0 && bounds.edits > 0,
        Property::sometimes("a job is in dead hands", |_, state: &State| {
            state.nobody_runs() && state.outbox.pages[0].in_flight.is_some()
        }),
    );
    when(
        bounds.swaps > 0 || bounds.losses > 0,
        Property::sometimes("receipts speak of another store", |_, state: &State| {
            let vectors = state.stores[StoreName::Vectors as usize];
            !state.receipts.speak_of(StoreName::Vectors, vectors)
        }),
    );
    seen
}
