//! Leases, recovery, and a clock that jumps.

use super::*;

cases![
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
];

fn a_late_ack_after_recovery_is_refused(outbox: &mut dyn Outbox) {
    put(outbox, &[job("a")], NOW);
    let sleeper = take_one(outbox, NOW);
    assert_eq!(recover(outbox, false, at(60_001)), 1);
    let late = [(sleeper.clone(), Settle::Ack)];
    assert_eq!(
        refused(outbox, &late, at(60_002)),
        1,
        "while it waits again"
    );
    let second = take_one(outbox, at(60_003));
    assert!(second.token > sleeper.token);
    assert_eq!(
        refused(outbox, &late, at(60_004)),
        1,
        "while another has it"
    );
    assert_eq!(outbox.extend(&[sleeper], LEASE, at(60_004)), Ok(1));
    end(outbox, &second, Settle::Ack, at(60_005));
    assert_eq!(refused(outbox, &late, at(60_006)), 1, "when it is done");
    assert_eq!(counts(outbox, at(60_006)), Counts::default());
}

fn a_lease_is_taken_back_after_its_end_and_not_before(outbox: &mut dyn Outbox) {
    put(outbox, &[job("a")], NOW);
    take_one(outbox, NOW);
    assert_eq!(recover(outbox, false, at(59_999)), 0);
    assert_eq!(recover(outbox, false, at(60_001)), 1);
    assert_eq!(recover(outbox, false, at(60_002)), 0);
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
        assert_eq!(recover(outbox, false, now), 0);
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
    assert_eq!(recover(outbox, true, at(1)), 2);
    let claims = take(outbox, at(1));
    assert_eq!(names(&claims), ["a", "c"]);
    assert!(claims.iter().all(|c| c.recoveries == 1 && c.job.retry == 0));
}

fn deaths_in_a_row_count_up_and_a_settle_ends_the_row(outbox: &mut dyn Outbox) {
    put(outbox, &[job("a")], NOW);
    for deaths in 0..3 {
        assert_eq!(take_one(outbox, NOW).recoveries, deaths);
        assert_eq!(recover(outbox, true, NOW), 1);
    }
    let claim = take_one(outbox, NOW);
    assert_eq!((claim.recoveries, claim.job.retry), (3, 0));
    end(outbox, &claim, retry(NOW, 0, ""), NOW);
    assert_eq!(take_one(outbox, NOW).recoveries, 0);
}

fn recovery_merges_with_what_was_enqueued_meanwhile(outbox: &mut dyn Outbox) {
    delayed(outbox, "a", 2, "v1", at(10));
    take_one(outbox, at(10));
    assert_eq!(recover(outbox, true, at(11)), 1);
    take_one(outbox, at(11));
    put(outbox, &[job("a")], at(12));
    assert_eq!(recover(outbox, true, at(13)), 1);
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
    assert_eq!(recover(outbox, true, at(13)), 1);
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
    assert_eq!(recover(outbox, false, minute_before), 0);
    let day_before = at(-86_400_000);
    assert_eq!(counts(outbox, day_before).delayed, 0);
    let mut claims = take(outbox, day_before);
    claims.sort_by(|a, b| a.job.path.cmp(&b.job.path));
    assert_eq!(names(&claims), ["delayed", "held"]);
    assert_eq!(recover(outbox, false, day_before), 2, "leased and fresh");
}

fn longer_waits_than_the_longest_are_cut(outbox: &mut dyn Outbox) {
    let year = Duration::from_hours(365 * 24);
    let longest = NOW.plus(LONGEST_WAIT);
    delayed(outbox, "a", 1, "v1", NOW.plus(year));
    assert_eq!(take(outbox, NOW), []);
    assert_eq!(outbox.next_due(), Ok(Some(longest)));
    let claim = take_one(outbox, longest);
    end(outbox, &claim, Settle::Ack, longest);

    put(outbox, &[job("a")], NOW);
    assert_eq!(outbox.claim(1, year, NOW).map(|c| c.jobs.len()), Ok(1));
    assert_eq!(recover(outbox, false, NOW), 0);
    assert_eq!(recover(outbox, false, Timestamp(longest.0 + 1)), 1);
}
