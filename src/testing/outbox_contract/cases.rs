//! The facts, one function each.

use std::time::Duration;

use super::Case;
use crate::model::{ContentSha, Job, Labels, PagePath, StoreName, Timestamp};
use crate::outbox::{
    Claimed, Counts, Death, Enqueued, JobId, Junk, LONGEST_WAIT, Outbox, Settle, Which,
};

macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        /// Every fact with its name.
        pub const CASES: &[(&str, Case)] = &[$((stringify!($name), $name)),*];
    };
}

cases![
    fresh_jobs_come_out_once_in_the_order_they_went_in,
    no_more_than_asked_for_are_claimed,
    odd_names_come_back_to_the_byte,
    jobs_of_one_page_merge_while_it_waits,
    a_page_twice_in_one_batch_waits_once,
    empty_labels_never_override,
    a_job_with_retries_goes_on_from_there,
    unnamed_or_equal_content_keeps_attempts_and_time,
    other_content_makes_a_delayed_job_fresh,
    content_named_while_none_was_known_keeps_attempts,
    a_page_edited_all_the_time_keeps_its_place,
    a_page_in_flight_is_passed_over_and_stops_no_other,
    a_retry_waits_for_its_time_and_counts,
    a_retry_without_a_wait_is_claimable_at_once,
    a_retry_meets_a_job_of_other_content,
    a_retry_meets_a_job_of_the_same_content,
    a_retry_meets_a_job_that_names_no_content,
    a_hold_lasts_until_its_store_is_released,
    a_hold_ends_at_its_time,
    fresh_content_does_not_release_a_hold,
    a_hold_meets_a_waiting_job,
    settling_twice_is_refused,
    refused_claims_change_nothing_and_the_rest_is_settled,
    a_late_ack_after_recovery_is_refused,
    a_lease_is_taken_back_after_its_end_and_not_before,
    an_expired_lease_that_nobody_took_back_still_settles,
    an_extended_lease_holds,
    recovery_of_all_takes_everything_at_once,
    deaths_in_a_row_count_up_and_a_settle_ends_the_row,
    recovery_merges_with_what_was_enqueued_meanwhile,
    recovery_of_old_content_leaves_new_content_fresh,
    a_clock_set_back_strands_nothing,
    longer_waits_than_the_longest_are_cut,
    ack_supersedes_the_dead_letters_of_its_page_only,
    a_dead_letter_says_how_it_died,
    a_newer_death_replaces_the_older,
    a_long_reason_is_cut_at_a_character,
    junk_is_kept_to_the_byte_and_never_retried,
    retried_letters_are_fresh_jobs,
    a_retried_letter_merges_with_the_waiting_job,
    letters_are_dropped_by_id,
    enqueueing_leaves_the_dead_letter_until_ack,
    empty_calls_change_nothing,
    status_lists_everything_oldest_first,
    next_due_is_the_earliest_delayed_or_held,
    a_large_batch_is_neither_lost_nor_doubled,
];

/// A real present: milliseconds since the epoch, in 2026.
const NOW: Timestamp = Timestamp(1_795_000_000_000);
const LEASE: Duration = Duration::from_secs(60);

fn at(ms: i64) -> Timestamp {
    Timestamp(NOW.0 + ms)
}

fn path(name: &str) -> PagePath {
    PagePath::parse(name).expect("a page's path")
}

fn sha(content: &str) -> ContentSha {
    ContentSha::of(content.as_bytes())
}

/// A job without a content.
fn job(name: &str) -> Job {
    Job::for_page(path(name), None)
}

/// A job of a content.
fn job_of(name: &str, content: &str) -> Job {
    Job::for_page(path(name), Some(sha(content)))
}

fn put(outbox: &mut dyn Outbox, jobs: &[Job], now: Timestamp) -> Enqueued {
    outbox.enqueue(jobs, now).expect("enqueue")
}

fn take(outbox: &mut dyn Outbox, now: Timestamp) -> Vec<Claimed> {
    outbox.claim(1000, LEASE, now).expect("claim")
}

/// Claims the only job that can be claimed.
fn take_one(outbox: &mut dyn Outbox, now: Timestamp) -> Claimed {
    let mut claims = take(outbox, now);
    assert_eq!(claims.len(), 1, "{claims:?}");
    claims.remove(0)
}

fn names(claims: &[Claimed]) -> Vec<&str> {
    claims.iter().map(|c| c.job.path.as_str()).collect()
}

/// Settles a claim that must not be refused.
fn end(outbox: &mut dyn Outbox, claim: &Claimed, outcome: Settle, now: Timestamp) {
    let refused = outbox.settle(&[(claim.clone(), outcome)], now);
    assert_eq!(refused, Ok(0), "{claim:?}");
}

fn retry(at: Timestamp, attempts: u32, content: &str) -> Settle {
    Settle::RetryAt {
        at,
        attempts,
        version: if content.is_empty() {
            String::new()
        } else {
            sha(content).to_string()
        },
        reason: "no luck".into(),
    }
}

fn hold(store: StoreName, until: Option<Timestamp>) -> Settle {
    Settle::Hold {
        store,
        until,
        reason: format!("{store} is away"),
    }
}

fn death(reason: &str) -> Death {
    Death {
        store: Some(StoreName::Vectors),
        reason: reason.into(),
        attempts: 4,
        version: sha("v1").to_string(),
        fingerprint: "f1".into(),
    }
}

fn counts(outbox: &mut dyn Outbox, now: Timestamp) -> Counts {
    outbox.counts(now).expect("counts")
}

/// A job that failed `attempts` times with `content`, delayed until `due`.
fn delayed(outbox: &mut dyn Outbox, name: &str, attempts: u32, content: &str, due: Timestamp) {
    put(outbox, &[job_of(name, content)], NOW);
    let claim = take_one(outbox, NOW);
    end(outbox, &claim, retry(due, attempts, content), NOW);
}

/// Lays a page among the dead letters.
fn bury_page(outbox: &mut dyn Outbox, job: &Job, death: Death, now: Timestamp) {
    put(outbox, std::slice::from_ref(job), now);
    let claim = take_one(outbox, now);
    end(outbox, &claim, Settle::Dead(death), now);
}

fn fresh_jobs_come_out_once_in_the_order_they_went_in(outbox: &mut dyn Outbox) {
    let done = put(outbox, &[job("b"), job("c"), job("a")], NOW);
    assert_eq!((done.new, done.merged), (3, 0));
    put(outbox, &[job("0")], at(1));
    let claims = take(outbox, at(2));
    assert_eq!(names(&claims), ["b", "c", "a", "0"]);
    assert!(claims.windows(2).all(|w| w[0].id != w[1].id));
    assert_eq!(take(outbox, at(3)), []);
}

fn no_more_than_asked_for_are_claimed(outbox: &mut dyn Outbox) {
    put(outbox, &[job("a"), job("b"), job("c")], NOW);
    assert_eq!(outbox.claim(0, LEASE, NOW), Ok(vec![]));
    let two = outbox.claim(2, LEASE, NOW).expect("claim");
    let rest = outbox.claim(2, LEASE, NOW).expect("claim");
    assert_eq!((names(&two), names(&rest)), (vec!["a", "b"], vec!["c"]));
    assert!(rest[0].token > two[0].token.max(two[1].token));
}

fn odd_names_come_back_to_the_byte(outbox: &mut dyn Outbox) {
    let odd = [
        "w/한글 페이지.md",
        "w/e\u{301}.md",
        "w/\u{e9}.md",
        "w/A.md",
        "w/a.md",
        "w/'; DROP TABLE jobs; --.md",
        "w/%s\"\\{}.md",
    ];
    put(outbox, &odd.map(job), NOW);
    assert_eq!(names(&take(outbox, NOW)), odd);
}

fn jobs_of_one_page_merge_while_it_waits(outbox: &mut dyn Outbox) {
    put(outbox, &[job_of("a", "v1")], NOW);
    let done = put(outbox, &[job_of("a", "v2"), job("b")], at(1));
    assert_eq!((done.new, done.merged), (1, 1));
    let claims = take(outbox, at(1));
    assert_eq!(names(&claims), ["a", "b"]);
    assert_eq!(claims[0].job.sha, Some(sha("v2")));
}

fn a_page_twice_in_one_batch_waits_once(outbox: &mut dyn Outbox) {
    let done = put(outbox, &[job("a"), job_of("a", "v1"), job("a")], NOW);
    assert_eq!((done.new, done.merged), (1, 2));
    assert_eq!(take_one(outbox, NOW).job, job_of("a", "v1"));
}

fn empty_labels_never_override(outbox: &mut dyn Outbox) {
    let labels = |repo: &str, commit: &str| Labels {
        repo: repo.into(),
        commit_sha: commit.into(),
    };
    let labelled = |repo, commit| Job {
        labels: labels(repo, commit),
        ..job("a")
    };
    put(outbox, &[labelled("r1", "c1")], NOW);
    put(outbox, &[job_of("a", "v2")], NOW);
    let claim = take_one(outbox, NOW);
    assert_eq!(claim.job.labels, labels("r1", "c1"));

    put(outbox, &[job_of("a", "v3")], NOW);
    end(outbox, &claim, retry(NOW, 1, "v2"), NOW);
    let claim = take_one(outbox, NOW);
    assert_eq!(
        claim.job.labels,
        labels("r1", "c1"),
        "of the job that came back"
    );

    put(outbox, &[labelled("r2", "")], NOW);
    end(outbox, &claim, retry(NOW, 1, "v3"), NOW);
    assert_eq!(take_one(outbox, NOW).job.labels, labels("r2", ""));
}

fn a_job_with_retries_goes_on_from_there(outbox: &mut dyn Outbox) {
    let third = Job {
        retry: 2,
        ..job_of("a", "v1")
    };
    put(outbox, std::slice::from_ref(&third), NOW);
    assert_eq!(take_one(outbox, NOW).job, third);
}

fn unnamed_or_equal_content_keeps_attempts_and_time(outbox: &mut dyn Outbox) {
    delayed(outbox, "a", 2, "v1", at(3000));
    let done = put(outbox, &[job("a"), job_of("a", "v1")], at(10));
    assert_eq!((done.new, done.merged), (0, 2));
    assert_eq!(take(outbox, at(2999)), []);
    assert_eq!(take_one(outbox, at(3000)).job.retry, 2);
}

fn other_content_makes_a_delayed_job_fresh(outbox: &mut dyn Outbox) {
    delayed(outbox, "a", 2, "v1", at(3000));
    let renewed = Job {
        retry: 1,
        ..job_of("a", "v2")
    };
    put(outbox, std::slice::from_ref(&renewed), at(10));
    assert_eq!(outbox.pending(1).expect("pending")[0].reason, "");
    assert_eq!(take_one(outbox, at(10)).job, renewed);
}

fn content_named_while_none_was_known_keeps_attempts(outbox: &mut dyn Outbox) {
    put(outbox, &[job("a")], NOW);
    let claim = take_one(outbox, NOW);
    end(outbox, &claim, retry(at(3000), 2, ""), NOW);
    put(outbox, &[job_of("a", "v2")], at(10));
    assert_eq!(take(outbox, at(10)), []);
    let claim = take_one(outbox, at(3000));
    assert_eq!((claim.job.retry, claim.job.sha), (2, Some(sha("v2"))));
}

fn a_page_edited_all_the_time_keeps_its_place(outbox: &mut dyn Outbox) {
    put(outbox, &[job_of("a", "v0"), job("b")], NOW);
    for edit in 1..9 {
        put(outbox, &[job_of("a", &format!("v{edit}"))], at(edit));
    }
    assert_eq!(names(&take(outbox, at(9))), ["a", "b"]);
}

fn a_page_in_flight_is_passed_over_and_stops_no_other(outbox: &mut dyn Outbox) {
    put(outbox, &[job_of("a", "v1")], NOW);
    let first = take_one(outbox, NOW);
    let done = put(outbox, &[job_of("a", "v2"), job("b"), job("c")], at(1));
    assert_eq!((done.new, done.merged), (3, 0));
    let others = outbox.claim(2, LEASE, at(1)).expect("claim");
    assert_eq!(names(&others), ["b", "c"]);
    assert_eq!(take(outbox, at(1)), []);
    assert_eq!(counts(outbox, at(1)).waiting, 1);
    end(outbox, &first, Settle::Ack, at(2));
    assert_eq!(take_one(outbox, at(2)).job, job_of("a", "v2"));
}

fn a_retry_waits_for_its_time_and_counts(outbox: &mut dyn Outbox) {
    delayed(outbox, "a", 1, "v1", at(1000));
    let before = counts(outbox, at(999));
    assert_eq!((before.waiting, before.delayed), (0, 1));
    assert_eq!(take(outbox, at(999)), []);
    let after = counts(outbox, at(1000));
    assert_eq!((after.waiting, after.delayed), (1, 0));
    let claim = take_one(outbox, at(1000));
    assert_eq!((claim.job.retry, claim.recoveries), (1, 0));
}

fn a_retry_without_a_wait_is_claimable_at_once(outbox: &mut dyn Outbox) {
    put(outbox, &[job("a")], NOW);
    for _ in 0..5 {
        // A worker that is told to stop gives its job back, as often as it likes.
        let claim = take_one(outbox, NOW);
        assert_eq!((claim.job.retry, claim.recoveries), (0, 0));
        end(outbox, &claim, retry(NOW, claim.job.retry, ""), NOW);
    }
}

fn a_retry_meets_a_job_of_other_content(outbox: &mut dyn Outbox) {
    put(outbox, &[job_of("a", "v1")], NOW);
    let claim = take_one(outbox, NOW);
    put(outbox, &[job_of("a", "v2")], at(1));
    end(outbox, &claim, retry(at(3000), 2, "v1"), at(2));
    let now = counts(outbox, at(2));
    assert_eq!((now.waiting, now.delayed, now.in_flight), (1, 0, 0));
    assert_eq!(take_one(outbox, at(2)).job, job_of("a", "v2"));
}

fn a_retry_meets_a_job_of_the_same_content(outbox: &mut dyn Outbox) {
    put(outbox, &[job_of("a", "v0")], NOW);
    let claim = take_one(outbox, NOW);
    put(outbox, &[job_of("a", "v1")], at(1));
    // It was v1 already when the worker got there.
    end(outbox, &claim, retry(at(3000), 2, "v1"), at(2));
    assert_eq!(take(outbox, at(2999)), []);
    let claim = take_one(outbox, at(3000));
    assert_eq!((claim.job.retry, claim.job.sha), (2, Some(sha("v1"))));
}

fn a_retry_meets_a_job_that_names_no_content(outbox: &mut dyn Outbox) {
    put(outbox, &[job_of("a", "v1")], NOW);
    let claim = take_one(outbox, NOW);
    let more = Job {
        retry: 3,
        ..job("a")
    };
    put(outbox, &[more], at(1));
    end(outbox, &claim, retry(at(3000), 1, "v1"), at(2));
    assert_eq!(take(outbox, at(2999)), []);
    assert_eq!(take_one(outbox, at(3000)).job.retry, 3);
}

fn a_hold_lasts_until_its_store_is_released(outbox: &mut dyn Outbox) {
    put(outbox, &[job("g"), job("v"), job("w")], NOW);
    let claims = take(outbox, NOW);
    for (claim, store) in claims.iter().zip(StoreName::ALL) {
        end(outbox, claim, hold(store, None), NOW);
    }
    let now = counts(outbox, at(1));
    assert_eq!((now.held, now.waiting, now.in_flight), (3, 0, 0));
    assert_eq!(take(outbox, at(1_000_000_000)), []);
    assert_eq!(outbox.release(Some(StoreName::Vectors), at(5)), Ok(1));
    assert_eq!(take_one(outbox, at(5)).job.path, path("v"));
    assert_eq!(outbox.release(None, at(6)), Ok(2));
    assert_eq!(outbox.release(None, at(6)), Ok(0));
    assert_eq!(names(&take(outbox, at(6))), ["g", "w"]);
}

fn a_hold_ends_at_its_time(outbox: &mut dyn Outbox) {
    put(outbox, &[job("a")], NOW);
    let claim = take_one(outbox, NOW);
    end(outbox, &claim, hold(StoreName::Git, Some(at(27_000))), NOW);
    assert_eq!(take(outbox, at(26_999)), []);
    assert_eq!(counts(outbox, at(27_000)).held, 1);
    assert_eq!(take_one(outbox, at(27_000)).job, job("a"));
    assert_eq!(counts(outbox, at(27_000)).held, 0);
}

fn fresh_content_does_not_release_a_hold(outbox: &mut dyn Outbox) {
    delayed(outbox, "a", 2, "v1", at(10));
    let claim = take_one(outbox, at(10));
    end(outbox, &claim, hold(StoreName::Graph, None), at(10));
    let done = put(outbox, &[job_of("a", "v2")], at(20));
    assert_eq!((done.new, done.merged), (0, 1));
    let held = outbox.pending(9).expect("pending").remove(0);
    assert_eq!(held.held_for, Some(StoreName::Graph));
    assert_eq!((held.attempts, &*held.reason), (0, "graph is away"));
    assert_eq!(take(outbox, at(30)), []);
    assert_eq!(outbox.release(Some(StoreName::Graph), at(40)), Ok(1));
    assert_eq!(take_one(outbox, at(40)).job, job_of("a", "v2"));
}

fn a_hold_meets_a_waiting_job(outbox: &mut dyn Outbox) {
    put(outbox, &[job_of("a", "v1"), job_of("b", "v1")], NOW);
    let claims = take(outbox, NOW);
    let again = |name, content| Job {
        retry: 1,
        ..job_of(name, content)
    };
    put(outbox, &[again("a", "v2"), again("b", "v1")], at(1));
    for claim in &claims {
        end(outbox, claim, hold(StoreName::Git, None), at(2));
    }
    let now = counts(outbox, at(2));
    assert_eq!((now.held, now.waiting), (2, 0));
    assert_eq!(outbox.release(None, at(3)), Ok(2));
    let jobs: Vec<_> = take(outbox, at(3)).into_iter().map(|c| c.job).collect();
    assert_eq!(jobs, [again("a", "v2"), again("b", "v1")]);
}

fn settling_twice_is_refused(outbox: &mut dyn Outbox) {
    put(outbox, &[job("a")], NOW);
    let claim = take_one(outbox, NOW);
    let twice = [(claim.clone(), Settle::Ack), (claim.clone(), Settle::Ack)];
    assert_eq!(outbox.settle(&twice, NOW), Ok(1));
    assert_eq!(outbox.settle(&twice, NOW), Ok(2));
    assert_eq!(counts(outbox, NOW), Counts::default());
}

fn refused_claims_change_nothing_and_the_rest_is_settled(outbox: &mut dyn Outbox) {
    put(outbox, &[job("a"), job("b"), job("c"), job("d")], NOW);
    let claims = take(outbox, NOW);
    let with_token = |n: usize, more: i64| Claimed {
        token: claims[n].token + more,
        ..claims[n].clone()
    };
    let foreign = Claimed {
        id: JobId("no such job".into()),
        ..claims[3].clone()
    };
    let mixed = [
        (with_token(0, 1000), Settle::Ack),
        (claims[1].clone(), Settle::Ack),
        (with_token(2, -1000), Settle::Dead(death("no"))),
        (foreign.clone(), retry(NOW, 9, "")),
        (claims[3].clone(), Settle::Dead(death("yes"))),
    ];
    assert_eq!(outbox.settle(&mixed, NOW), Ok(3));
    let now = counts(outbox, NOW);
    assert_eq!((now.in_flight, now.waiting, now.dead), (2, 0, 1));
    assert_eq!(
        outbox.extend(&[foreign, claims[0].clone()], LEASE, NOW),
        Ok(1)
    );
    end(outbox, &claims[0], Settle::Ack, NOW);
    end(outbox, &claims[2], Settle::Ack, NOW);
}

fn a_late_ack_after_recovery_is_refused(outbox: &mut dyn Outbox) {
    put(outbox, &[job("a")], NOW);
    let sleeper = take_one(outbox, NOW);
    assert_eq!(outbox.recover(false, at(60_001)), Ok(1));
    let late = [(sleeper.clone(), Settle::Ack)];
    assert_eq!(
        outbox.settle(&late, at(60_002)),
        Ok(1),
        "while it waits again"
    );
    let second = take_one(outbox, at(60_003));
    assert!(second.token > sleeper.token);
    assert_eq!(
        outbox.settle(&late, at(60_004)),
        Ok(1),
        "while another has it"
    );
    assert_eq!(outbox.extend(&[sleeper], LEASE, at(60_004)), Ok(1));
    end(outbox, &second, Settle::Ack, at(60_005));
    assert_eq!(outbox.settle(&late, at(60_006)), Ok(1), "when it is done");
    assert_eq!(counts(outbox, at(60_006)), Counts::default());
}

fn a_lease_is_taken_back_after_its_end_and_not_before(outbox: &mut dyn Outbox) {
    put(outbox, &[job("a")], NOW);
    take_one(outbox, NOW);
    assert_eq!(outbox.recover(false, at(59_999)), Ok(0));
    assert_eq!(outbox.recover(false, at(60_001)), Ok(1));
    assert_eq!(outbox.recover(false, at(60_002)), Ok(0));
    assert_eq!(take_one(outbox, at(60_002)).recoveries, 1);
}

fn an_expired_lease_that_nobody_took_back_still_settles(outbox: &mut dyn Outbox) {
    put(outbox, &[job("a")], NOW);
    let claim = take_one(outbox, NOW);
    assert_eq!(take(outbox, at(70_000)), []);
    end(outbox, &claim, Settle::Ack, at(70_000));
}

fn an_extended_lease_holds(outbox: &mut dyn Outbox) {
    put(outbox, &[job("a")], NOW);
    let claim = take_one(outbox, NOW);
    // Four leases long, renewed at each half.
    for half in 1..8 {
        let now = at(30_000 * half);
        assert_eq!(outbox.recover(false, now), Ok(0));
        let renewed = outbox.extend(std::slice::from_ref(&claim), LEASE, now);
        assert_eq!(renewed, Ok(0));
    }
    assert_eq!(take(outbox, at(240_000)), []);
    end(outbox, &claim, Settle::Ack, at(240_000));
}

fn recovery_of_all_takes_everything_at_once(outbox: &mut dyn Outbox) {
    put(outbox, &[job("a"), job("b"), job("c")], NOW);
    let held = take(outbox, NOW);
    end(outbox, &held[1], hold(StoreName::Git, None), NOW);
    assert_eq!(outbox.recover(true, at(1)), Ok(2));
    let claims = take(outbox, at(1));
    assert_eq!(names(&claims), ["a", "c"]);
    assert!(claims.iter().all(|c| c.recoveries == 1 && c.job.retry == 0));
}

fn deaths_in_a_row_count_up_and_a_settle_ends_the_row(outbox: &mut dyn Outbox) {
    put(outbox, &[job("a")], NOW);
    for deaths in 0..3 {
        assert_eq!(take_one(outbox, NOW).recoveries, deaths);
        assert_eq!(outbox.recover(true, NOW), Ok(1));
    }
    let claim = take_one(outbox, NOW);
    assert_eq!((claim.recoveries, claim.job.retry), (3, 0));
    end(outbox, &claim, retry(NOW, 0, ""), NOW);
    assert_eq!(take_one(outbox, NOW).recoveries, 0);
}

fn recovery_merges_with_what_was_enqueued_meanwhile(outbox: &mut dyn Outbox) {
    delayed(outbox, "a", 2, "v1", at(10));
    take_one(outbox, at(10));
    assert_eq!(outbox.recover(true, at(11)), Ok(1));
    take_one(outbox, at(11));
    put(outbox, &[job("a")], at(12));
    assert_eq!(outbox.recover(true, at(13)), Ok(1));
    let now = counts(outbox, at(13));
    assert_eq!((now.waiting, now.in_flight), (1, 0));
    let claim = take_one(outbox, at(13));
    assert_eq!(
        (claim.recoveries, claim.job),
        (
            2,
            Job {
                retry: 2,
                ..job_of("a", "v1")
            }
        )
    );
}

fn recovery_of_old_content_leaves_new_content_fresh(outbox: &mut dyn Outbox) {
    delayed(outbox, "a", 2, "v1", at(10));
    take_one(outbox, at(10));
    put(outbox, &[job_of("a", "v2")], at(12));
    assert_eq!(outbox.recover(true, at(13)), Ok(1));
    let claim = take_one(outbox, at(13));
    assert_eq!((claim.recoveries, claim.job), (1, job_of("a", "v2")));
}

fn a_clock_set_back_strands_nothing(outbox: &mut dyn Outbox) {
    delayed(outbox, "delayed", 1, "v1", at(3000));
    put(outbox, &[job("held")], NOW);
    let claim = take_one(outbox, NOW);
    end(outbox, &claim, hold(StoreName::Git, Some(at(3000))), NOW);
    put(outbox, &[job("leased")], NOW);
    take_one(outbox, NOW);
    put(outbox, &[job("fresh")], NOW);

    let minute_before = at(-60_000);
    assert_eq!(names(&take(outbox, minute_before)), ["fresh"]);
    assert_eq!(outbox.recover(false, minute_before), Ok(0));
    let day_before = at(-86_400_000);
    assert_eq!(counts(outbox, day_before).delayed, 0);
    let mut claims = take(outbox, day_before);
    claims.sort_by(|a, b| a.job.path.cmp(&b.job.path));
    assert_eq!(names(&claims), ["delayed", "held"]);
    assert_eq!(outbox.recover(false, day_before), Ok(2), "leased and fresh");
}

fn longer_waits_than_the_longest_are_cut(outbox: &mut dyn Outbox) {
    let year = Duration::from_secs(365 * 86_400);
    let longest = NOW.plus(LONGEST_WAIT);
    delayed(outbox, "a", 1, "v1", NOW.plus(year));
    assert_eq!(take(outbox, NOW), []);
    assert_eq!(outbox.next_due(), Ok(Some(longest)));
    let claim = take_one(outbox, longest);
    end(outbox, &claim, Settle::Ack, longest);

    put(outbox, &[job("a")], NOW);
    assert_eq!(outbox.claim(1, year, NOW).map(|c| c.len()), Ok(1));
    assert_eq!(outbox.recover(false, NOW), Ok(0));
    assert_eq!(outbox.recover(false, Timestamp(longest.0 + 1)), Ok(1));
}

fn ack_supersedes_the_dead_letters_of_its_page_only(outbox: &mut dyn Outbox) {
    bury_page(outbox, &job("a"), death("a"), NOW);
    bury_page(outbox, &job("b"), death("b"), NOW);
    put(outbox, &[job("a")], NOW);
    let claim = take_one(outbox, NOW);
    end(outbox, &claim, Settle::Ack, NOW);
    let dead = outbox.dead().expect("dead");
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].path, Some(path("b")));
}

fn a_dead_letter_says_how_it_died(outbox: &mut dyn Outbox) {
    let mut job = job_of("w/쪽.md", "v1");
    job.labels.repo = "demo".into();
    let nowhere = Death {
        store: None,
        ..death("outside the wiki")
    };
    bury_page(outbox, &job, nowhere.clone(), at(5));
    let dead = outbox.dead().expect("dead").remove(0);
    assert_eq!((dead.path, dead.dead_at), (Some(path("w/쪽.md")), at(5)));
    assert_eq!(dead.death, nowhere);
    let line = String::from_utf8(dead.raw).expect("UTF-8");
    assert_eq!(line, Job { retry: 4, ..job }.to_line());
}

fn a_newer_death_replaces_the_older(outbox: &mut dyn Outbox) {
    bury_page(outbox, &job("a"), death("first"), NOW);
    bury_page(outbox, &job("b"), death("b"), at(1));
    bury_page(outbox, &job("a"), death("second"), at(2));
    let reasons: Vec<_> = outbox
        .dead()
        .expect("dead")
        .into_iter()
        .map(|letter| letter.death.reason)
        .collect();
    assert_eq!(reasons, ["b", "second"]);
}

fn a_long_reason_is_cut_at_a_character(outbox: &mut dyn Outbox) {
    let long = format!("x{}", "쪽".repeat(5000));
    bury_page(outbox, &job("a"), death(&long), NOW);
    let kept = outbox.dead().expect("dead").remove(0).death.reason;
    assert!(long.starts_with(&kept));
    assert!((4093..=4096).contains(&kept.len()), "{}", kept.len());
}

fn junk_is_kept_to_the_byte_and_never_retried(outbox: &mut dyn Outbox) {
    let raw = b"not \xff\0 json\n".to_vec();
    let junk = Junk {
        raw: raw.clone(),
        reason: "line is not a job".into(),
    };
    outbox.bury(&junk, at(7)).expect("bury");
    outbox.bury(&junk, at(8)).expect("bury");
    let dead = outbox.dead().expect("dead");
    assert_eq!((dead.len(), &dead[0].path, &dead[0].raw), (2, &None, &raw));
    assert_eq!(
        (dead[0].dead_at, &*dead[0].death.reason),
        (at(7), "line is not a job")
    );
    assert_eq!(outbox.retry_dead(&Which::All, NOW), Ok(0));
    assert_eq!(outbox.retry_dead(&Which::Ids(vec![dead[0].id]), NOW), Ok(0));
    assert_eq!(counts(outbox, NOW).dead, 2);
    assert_eq!(outbox.drop_dead(&Which::All), Ok(2));
    assert_eq!(counts(outbox, NOW), Counts::default());
}

fn retried_letters_are_fresh_jobs(outbox: &mut dyn Outbox) {
    let mut labelled = job_of("a", "v1");
    labelled.labels.repo = "demo".into();
    bury_page(outbox, &labelled, death("a"), NOW);
    bury_page(outbox, &job("b"), death("b"), NOW);
    let id = outbox.dead().expect("dead")[0].id;
    assert_eq!(
        outbox.retry_dead(&Which::Ids(vec![id, id, 99_999]), at(1)),
        Ok(1)
    );
    assert_eq!(take_one(outbox, at(1)).job, labelled);
    assert_eq!(outbox.retry_dead(&Which::All, at(2)), Ok(1));
    assert_eq!(take_one(outbox, at(2)).job, job("b"));
    assert_eq!(counts(outbox, at(2)).dead, 0);
}

fn a_retried_letter_merges_with_the_waiting_job(outbox: &mut dyn Outbox) {
    let mut labelled = job_of("a", "v1");
    labelled.labels.repo = "demo".into();
    bury_page(outbox, &labelled, death("a"), NOW);
    delayed(outbox, "a", 3, "v2", at(9000));
    assert_eq!(outbox.retry_dead(&Which::All, at(1)), Ok(1));
    let now = counts(outbox, at(1));
    assert_eq!((now.waiting, now.delayed, now.dead), (1, 0, 0));
    let merged = Job {
        labels: labelled.labels,
        ..job_of("a", "v2")
    };
    assert_eq!(take_one(outbox, at(1)).job, merged);
}

fn letters_are_dropped_by_id(outbox: &mut dyn Outbox) {
    for name in ["a", "b", "c"] {
        bury_page(outbox, &job(name), death(name), NOW);
    }
    let ids: Vec<_> = outbox.dead().expect("dead").iter().map(|d| d.id).collect();
    assert_eq!(
        outbox.drop_dead(&Which::Ids(vec![ids[1], ids[1], -5])),
        Ok(1)
    );
    assert_eq!(outbox.drop_dead(&Which::Ids(vec![])), Ok(0));
    let left = outbox.dead().expect("dead");
    assert_eq!(
        left.iter().map(|d| d.id).collect::<Vec<_>>(),
        [ids[0], ids[2]]
    );
}

fn enqueueing_leaves_the_dead_letter_until_ack(outbox: &mut dyn Outbox) {
    bury_page(outbox, &job_of("a", "v1"), death("a"), NOW);
    let done = put(outbox, &[job_of("a", "v2")], NOW);
    assert_eq!((done.new, done.merged), (1, 0));
    let claim = take_one(outbox, NOW);
    assert_eq!((claim.job.retry, counts(outbox, NOW).dead), (0, 1));
    end(outbox, &claim, Settle::Ack, NOW);
    assert_eq!(counts(outbox, NOW), Counts::default());
}

fn empty_calls_change_nothing(outbox: &mut dyn Outbox) {
    assert_eq!(outbox.enqueue(&[], NOW), Ok(Enqueued::default()));
    assert_eq!(outbox.claim(10, LEASE, NOW), Ok(vec![]));
    assert_eq!(outbox.settle(&[], NOW), Ok(0));
    assert_eq!(outbox.extend(&[], LEASE, NOW), Ok(0));
    assert_eq!(outbox.recover(true, NOW), Ok(0));
    assert_eq!(outbox.recover(false, NOW), Ok(0));
    assert_eq!(outbox.release(None, NOW), Ok(0));
    assert_eq!(outbox.next_due(), Ok(None));
    assert_eq!(outbox.counts(NOW), Ok(Counts::default()));
    assert_eq!(outbox.pending(10), Ok(vec![]));
    assert_eq!(outbox.dead(), Ok(vec![]));
    assert_eq!(outbox.retry_dead(&Which::All, NOW), Ok(0));
    assert_eq!(outbox.drop_dead(&Which::All), Ok(0));
}

fn status_lists_everything_oldest_first(outbox: &mut dyn Outbox) {
    delayed(outbox, "delayed", 2, "v1", at(9000));
    put(outbox, &[job("held")], at(1));
    let claim = take_one(outbox, at(1));
    end(outbox, &claim, hold(StoreName::Vectors, None), at(1));
    put(outbox, &[job("leased")], at(2));
    take_one(outbox, at(2));
    put(outbox, &[job("fresh")], at(3));
    put(outbox, &[job("delayed"), job("held")], at(4));

    let now = counts(outbox, at(5));
    let states = (now.waiting, now.delayed, now.in_flight, now.held, now.dead);
    assert_eq!(states, (1, 1, 1, 1, 0));
    let pending = outbox.pending(10).expect("pending");
    let shown: Vec<_> = pending
        .iter()
        .map(|p| (p.path.as_str(), p.held_for, &*p.reason, p.attempts, p.since))
        .collect();
    let expected = [
        ("delayed", None, "no luck", 2, NOW),
        (
            "held",
            Some(StoreName::Vectors),
            "vectors is away",
            0,
            at(1),
        ),
        ("leased", None, "", 0, at(2)),
        ("fresh", None, "", 0, at(3)),
    ];
    assert_eq!(shown, expected);
    assert_eq!(outbox.pending(2).expect("pending"), pending[..2]);
}

fn next_due_is_the_earliest_delayed_or_held(outbox: &mut dyn Outbox) {
    put(outbox, &[job("a"), job("b"), job("c"), job("d")], NOW);
    assert_eq!(outbox.next_due(), Ok(None), "of fresh jobs");
    let claims = take(outbox, NOW);
    end(outbox, &claims[0], hold(StoreName::Git, None), NOW);
    assert_eq!(outbox.next_due(), Ok(None), "of a hold without an end");
    end(outbox, &claims[1], retry(at(9000), 3, ""), NOW);
    assert_eq!(outbox.next_due(), Ok(Some(at(9000))));
    end(
        outbox,
        &claims[2],
        hold(StoreName::Git, Some(at(3000))),
        NOW,
    );
    assert_eq!(outbox.next_due(), Ok(Some(at(3000))));
    outbox.release(None, at(1)).expect("release");
    assert_eq!(outbox.next_due(), Ok(Some(at(9000))));
}

fn a_large_batch_is_neither_lost_nor_doubled(outbox: &mut dyn Outbox) {
    let jobs: Vec<_> = (0..3000).map(|n| job(&format!("w/{n}.md"))).collect();
    assert_eq!(put(outbox, &jobs, NOW).new, 3000);
    let mut seen = std::collections::BTreeSet::new();
    loop {
        let claims = outbox.claim(700, LEASE, NOW).expect("claim");
        if claims.is_empty() {
            break;
        }
        let fresh = claims.iter().all(|c| seen.insert(c.job.path.clone()));
        assert!(fresh, "a page came twice");
    }
    assert_eq!(seen.len(), 3000);
    // Workers die with everything in their hands, which then is more than any one script may carry.
    assert_eq!(outbox.recover(false, at(60_001)), Ok(3000));
    let mut acked = 0;
    while acked < 3000 {
        let claims = outbox.claim(700, LEASE, at(60_002)).expect("claim");
        assert!(!claims.is_empty(), "{acked} came back");
        acked += claims.len();
        let settled: Vec<_> = claims.into_iter().map(|c| (c, Settle::Ack)).collect();
        assert_eq!(outbox.settle(&settled, at(60_003)), Ok(0));
    }
    assert_eq!(counts(outbox, at(60_004)), Counts::default());
}
