//! Every state within the bounds, and the mistakes that are found there.

use stateright::{Checker as _, HasDiscoveries, Model as _};

use super::world::Bounds;
use super::{Mutant, Protocol};

/// Threads per run: the tests run beside each other.
const THREADS: usize = 2;

/// Visits every state and shows that every promise is kept, and that what they are about does happen.
fn holds(bounds: Bounds) {
    let model = Protocol {
        bounds,
        mutant: None,
    };
    let checker = model.checker().threads(THREADS).spawn_bfs().join();
    assert!(checker.is_done(), "not every state was visited");
    checker.assert_properties();
}

/// Shows that the promise is seen to be broken with this mistake in the protocol.
fn breaks(mutant: Mutant, bounds: Bounds, promise: &'static str) {
    let model = Protocol {
        bounds,
        mutant: Some(mutant),
    };
    let checker = model
        .checker()
        .threads(THREADS)
        .finish_when(HasDiscoveries::AnyOf([promise].into()))
        .spawn_bfs()
        .join();
    assert!(
        checker.discovery(promise).is_some(),
        "{promise:?} does not see {mutant:?}, in {} states",
        checker.unique_state_count()
    );
}

const NONE: Bounds = Bounds::NONE;

/// Declares tests that visit every state within some bounds.
macro_rules! every_state {
    ($($(#[$attribute:meta])* $name:ident { $($bound:ident: $value:expr),* $(,)? })*) => {$(
        #[test]
        $(#[$attribute])*
        fn $name() {
            holds(Bounds { $($bound: $value,)* ..NONE });
        }
    )*};
}

every_state! {
    two_workers_two_pages_a_kill_and_a_lost_lease {
        workers: 2, pages: 2, edits: 2, kills: 1, leases: 1,
    }
    two_workers_and_an_outage { workers: 2, pages: 2, edits: 1, kills: 1, outages: 1 }
    a_kill_at_every_step_and_a_kill_of_its_heir { edits: 2, kills: 2, starts: 3, unscanned: true }
    stores_go_away_and_heads_are_reset { edits: 2, outages: 1, resets: 1, unscanned: true }
    vectors_are_lost_and_restored { pages: 2, edits: 1, copies: 1, swaps: 1, kills: 1, starts: 3 }
    vectors_are_restored_twice { edits: 1, copies: 1, swaps: 2, starts: 3 }
    the_state_is_lost { edits: 1, kills: 1, losses: 1, swaps: 1 }
    both_databases_are_lost_among_letters { edits: 2, bad: true, losses: 2, starts: 3 }
    letters_rest_while_stores_go_away { edits: 1, faults: 2, outages: 1, losses: 1 }
    letters_rest_and_are_retried {
        edits: 2, bad: true, faults: 2, retries: 1, starts: 3, kills: 1, unscanned: true,
    }

    #[ignore = "1 min: every copy at every moment"]
    vectors_are_restored_twice_under_two_edits {
        edits: 2, copies: 1, swaps: 2, starts: 3,
    }
    #[ignore = "1 min: an outage at every moment of two workers"]
    two_workers_and_an_outage_and_two_edits { workers: 2, edits: 2, kills: 1, outages: 1, starts: 3 }
    #[ignore = "1 min: two outages at every moment"]
    both_stores_go_away { pages: 2, edits: 2, outages: 2, kills: 1 }
    #[ignore = "1 min: letters while stores go away, and two edits"]
    letters_rest_while_stores_go_away_under_two_edits { edits: 2, faults: 2, outages: 1, losses: 1 }
    #[ignore = "half a minute: letters among two workers"]
    two_workers_and_letters {
        workers: 2, edits: 2, bad: true, faults: 2, retries: 1, starts: 3, unscanned: true,
    }
}

/// Declares tests that find a mistake by a promise.
macro_rules! mistakes {
    ($($name:ident: $mutant:ident breaks $promise:literal { $($bound:ident: $value:expr),* $(,)? })*) => {$(
        #[test]
        fn $name() {
            breaks(Mutant::$mutant, Bounds { $($bound: $value,)* ..NONE }, $promise);
        }
    )*};
}

mistakes! {
    a_claim_that_only_pops_loses_jobs: ClaimPops breaks "no job is lost" {
        edits: 1, kills: 1,
    }
    without_the_lock_two_workers_meet: NoLock
    breaks "one worker at a time is between claim and settle" { workers: 2, edits: 1 }
    without_the_lock_receipts_lie: NoLock breaks "a receipt never lies" {
        workers: 2, edits: 2, kills: 1,
    }
    a_settle_without_token_takes_what_is_not_its_own: SettleIgnoresToken
    breaks "a lost token changes nothing" { edits: 1, leases: 1 }
    a_settle_without_token_loses_an_event: SettleIgnoresToken breaks "no job is lost" {
        edits: 2, leases: 1, unscanned: true,
    }
    an_event_swallowed_by_a_job_in_flight_is_lost: EnqueueMergesWithInFlight breaks "no job is lost" {
        edits: 2, unscanned: true,
    }
    an_ack_without_the_store_loses_the_page: AckThoughAway breaks "no job is lost" {
        edits: 1, outages: 1,
    }
    a_hold_that_counts_uses_attempts: HoldCounts breaks "a hold uses no attempt" {
        edits: 1, outages: 1,
    }
    without_a_second_look_an_ack_is_of_old_text: NoRecheck breaks "an ack is of what is on disk" {
        edits: 2,
    }
    receipts_written_ahead_lie: ReceiptsBeforeApply breaks "a receipt never lies" {
        edits: 1, kills: 1,
    }
    receipts_not_voided_lie: ReceiptsAreNotVoided breaks "a receipt never lies" {
        edits: 1, kills: 1,
    }
    receipts_not_voided_leave_old_text_over_new: ReceiptsAreNotVoided
    breaks "after the next scan every store holds what is on disk" { edits: 2, kills: 1 }
    an_epoch_that_was_not_reached_voids_all: EpochIsRaisedThoughAway
    breaks "receipts are voided for a reason" { edits: 1, outages: 1 }
    without_epochs_an_old_copy_is_not_seen: EpochsAreNotCompared
    breaks "after the next scan every store holds what is on disk" {
        edits: 1, swaps: 1,
    }
    a_scan_that_enqueues_what_rests: ScanWakesTheDead breaks "a dead letter rests" {
        edits: 1, bad: true,
    }
    a_visit_that_tries_what_rests: LookWakesTheDead breaks "a dead letter rests" {
        edits: 3, bad: true, unscanned: true,
    }

    what_was_voided_and_not_adopted_stays_as_an_orphan: AdoptsApart
    breaks "after the next scan every store holds what is on disk" {
        edits: 1, swaps: 1, kills: 1, starts: 3,
    }
    a_copy_with_the_epoch_of_another_is_taken_for_it: IdStays breaks "a receipt never lies" {
        edits: 2, copies: 1, swaps: 2,
    }
    two_kills_void_all_receipts: EpochLags breaks "receipts are voided for a reason" {
        edits: 1, kills: 2, starts: 3,
    }
    a_copy_restored_under_a_running_drain_is_not_seen: ApplyDoesNotCompare
    breaks "after the next scan every store holds what is on disk" {
        pages: 2, edits: 2, swaps: 1,
    }
    a_store_that_came_back_empty_stays_so_for_this_drain: ProbeDoesNotScan
    breaks "quiet means consistent" { pages: 2, edits: 1, outages: 1, swaps: 1 }
    a_hold_for_one_store_keeps_the_page_from_git: ScanKeepsHolds breaks "quiet means consistent" {
        edits: 1, outages: 1, resets: 1,
    }
    a_page_that_came_back_stays_held: AbsenceHasNoName breaks "quiet means consistent" {
        edits: 2, outages: 1, unscanned: true,
    }
    an_event_without_name_does_not_end_a_hold: NamesStay breaks "quiet means consistent" {
        edits: 3, outages: 1, unscanned: true,
    }
    a_page_that_died_for_one_store_is_lost_to_another: DiesForAll breaks "no job is lost" {
        edits: 1, faults: 2, outages: 1,
    }
    a_letter_taken_away_swallows_a_job: LettersAreRemembered breaks "no job is lost" {
        edits: 1, bad: true, retries: 1, unscanned: true,
    }
    a_letter_laid_in_this_drain_does_not_rest: LettersAreRemembered breaks "a dead letter rests" {
        edits: 3, bad: true, unscanned: true,
    }
}
