//! Leaving a worker's hands: retries, holds, refusals.

use super::*;

cases![
    a_retry_waits_for_its_time_and_counts,
    a_retry_without_a_wait_is_claimable_at_once,
    a_retry_meets_a_job_of_other_content,
    a_retry_meets_a_job_of_the_same_content,
    a_retry_meets_a_job_that_names_no_content,
    a_hold_lasts_until_its_store_is_released,
    a_hold_ends_at_its_time,
    an_event_of_another_content_or_none_ends_a_hold,
    a_swallowed_job_leaves_the_dead_letter_resting,
    a_hold_meets_a_waiting_job,
    settling_twice_is_refused,
    refused_claims_change_nothing_and_the_rest_is_settled,
];

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
    let pending = outbox.pending(9).expect("pending").remove(0);
    assert_eq!((&*pending.reason, pending.since), ("", NOW));
    assert_eq!(take_one(outbox, at(2)).job, job_of("a", "v2"));
}

fn a_retry_meets_a_job_of_the_same_content(outbox: &mut dyn Outbox) {
    put(outbox, &[job_of("a", "v0")], NOW);
    let claim = take_one(outbox, NOW);
    put(outbox, &[job_of("a", "v1")], at(1));
    // It was v1 already when the worker got there.
    end(outbox, &claim, retry(at(3000), 2, "v1"), at(2));
    let pending = outbox.pending(9).expect("pending").remove(0);
    assert_eq!((&*pending.reason, pending.since), ("no luck", NOW));
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

fn an_event_of_another_content_or_none_ends_a_hold(outbox: &mut dyn Outbox) {
    put(
        outbox,
        &[job_of("a", "v1"), job_of("b", "v1"), job_of("c", "v1")],
        NOW,
    );
    for claim in take(outbox, NOW) {
        end(outbox, &claim, hold(StoreName::Graph, None), NOW);
    }
    let done = put(
        outbox,
        &[job_of("a", "v1"), job_of("b", "v2"), job("c")],
        at(20),
    );
    assert_eq!((done.new, done.merged), (0, 3));
    assert_eq!(names(&take(outbox, at(20))), ["b", "c"]);
    let held = outbox.pending(9).expect("pending").remove(0);
    assert_eq!(held.held_for, Some(StoreName::Graph));
    assert_eq!(&*held.reason, "graph is away");
}

fn a_swallowed_job_leaves_the_dead_letter_resting(outbox: &mut dyn Outbox) {
    put(outbox, &[job("a")], NOW);
    let claim = take_one(outbox, NOW);
    end(outbox, &claim, Settle::Dead(death("never")), NOW);
    put(outbox, &[job("a")], NOW);
    let claim = take_one(outbox, NOW);
    end(outbox, &claim, Settle::Swallow, NOW);
    let now = counts(outbox, NOW);
    assert_eq!((now.waiting, now.in_flight, now.dead), (0, 0, 1));
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
    assert_eq!((now.held, now.waiting), (1, 1), "the other content is due");
    assert_eq!(outbox.release(None, at(3)), Ok(1));
    let jobs: Vec<_> = take(outbox, at(3)).into_iter().map(|c| c.job).collect();
    assert_eq!(jobs, [again("a", "v2"), again("b", "v1")]);
}

fn settling_twice_is_refused(outbox: &mut dyn Outbox) {
    put(outbox, &[job("a")], NOW);
    let claim = take_one(outbox, NOW);
    let twice = [(claim.clone(), Settle::Ack), (claim.clone(), Settle::Ack)];
    assert_eq!(refused(outbox, &twice, NOW), 1);
    assert_eq!(refused(outbox, &twice, NOW), 2);
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
    assert_eq!(refused(outbox, &mixed, NOW), 3);
    let now = counts(outbox, NOW);
    assert_eq!((now.in_flight, now.waiting, now.dead), (2, 0, 1));
    assert_eq!(
        outbox.extend(&[foreign, claims[0].clone()], LEASE, NOW),
        Ok(1)
    );
    end(outbox, &claims[0], Settle::Ack, NOW);
    end(outbox, &claims[2], Settle::Ack, NOW);
}
