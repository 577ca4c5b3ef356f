//! What is told of the whole, and the edges of size.

use super::*;

cases![
    empty_calls_change_nothing,
    status_lists_everything_oldest_first,
    what_is_in_flight_says_in_whose_hands_and_since_when,
    a_merge_on_the_way_back_is_told,
    next_due_is_the_earliest_delayed_or_held,
    a_large_batch_is_neither_lost_nor_doubled,
];

fn empty_calls_change_nothing(outbox: &mut dyn Outbox) {
    assert_eq!(outbox.enqueue(&[], NOW), Ok(Enqueued::default()));
    assert_eq!(outbox.claim(10, LEASE, NOW), Ok(Claims::default()));
    assert_eq!(refused(outbox, &[], NOW), 0);
    assert_eq!(outbox.extend(&[], LEASE, NOW), Ok(0));
    assert_eq!(recover(outbox, true, NOW), 0);
    assert_eq!(recover(outbox, false, NOW), 0);
    assert_eq!(outbox.release(None, NOW), Ok(0));
    assert_eq!(outbox.next_due(), Ok(None));
    assert_eq!(outbox.counts(NOW), Ok(Counts::default()));
    assert_eq!(outbox.pending(10), Ok(vec![]));
    assert_eq!(outbox.dead(), Ok(vec![]));
    assert_eq!(outbox.dead_of(&[path("a")]), Ok(vec![]));
    assert_eq!(outbox.dead_line(1), Ok(None));
    assert_eq!(outbox.retry_dead(&Which::All, NOW), Ok(0));
    assert_eq!(outbox.drop_dead(&Which::All), Ok(0));
}

fn status_lists_everything_oldest_first(outbox: &mut dyn Outbox) {
    delayed(outbox, "delayed", 2, "v1", at(9000));
    put(outbox, &[job_of("held", "v1")], at(1));
    let claim = take_one(outbox, at(1));
    end(outbox, &claim, hold(StoreName::Vectors, None), at(1));
    put(outbox, &[job("leased")], at(2));
    take_one(outbox, at(2));
    put(outbox, &[job("fresh")], at(3));
    put(outbox, &[job("delayed"), job_of("held", "v1")], at(4));

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

fn what_is_in_flight_says_in_whose_hands_and_since_when(outbox: &mut dyn Outbox) {
    delayed(outbox, "a", 1, "v1", at(9000));
    put(outbox, &[job("b")], at(1));
    let claim = take_one(outbox, at(7));
    put(outbox, &[job("c")], at(8));
    let standing = |outbox: &mut dyn Outbox| -> Vec<_> {
        let pending = outbox.pending(9).expect("pending");
        pending.into_iter().map(|p| p.standing).collect()
    };
    let in_flight = Standing::InFlight {
        worker: Some(Worker::this().clone()),
        since: at(7),
    };
    assert_eq!(
        standing(outbox),
        [Standing::Delayed, in_flight, Standing::Waiting]
    );
    end(outbox, &claim, hold(StoreName::Git, None), at(9));
    assert_eq!(
        standing(outbox),
        [Standing::Delayed, Standing::Held, Standing::Waiting]
    );
}

fn a_merge_on_the_way_back_is_told(outbox: &mut dyn Outbox) {
    put(outbox, &[job("a"), job("b"), job("c")], NOW);
    let claims = take(outbox, NOW);
    put(outbox, &[job("a"), job("c")], at(1));
    let settled = [
        (claims[0].clone(), retry(at(5), 1, "")),
        (claims[1].clone(), retry(at(5), 1, "")),
    ];
    let told = outbox.settle(&settled, at(2)).expect("settle");
    assert_eq!((told.refused, told.merged), (0, 1));
    let told = outbox.recover(true, at(3)).expect("recover");
    assert_eq!((told.jobs, told.merged), (1, 1));
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
        let claims = outbox.claim(700, LEASE, NOW).expect("claim").jobs;
        if claims.is_empty() {
            break;
        }
        let fresh = claims.iter().all(|c| seen.insert(c.job.path.clone()));
        assert!(fresh, "a page came twice");
    }
    assert_eq!(seen.len(), 3000);
    // Workers die with everything in their hands, which then is more than any one script may carry.
    assert_eq!(recover(outbox, false, at(60_001)), 3000);
    let mut acked = 0;
    while acked < 3000 {
        let claims = outbox.claim(700, LEASE, at(60_002)).expect("claim").jobs;
        assert!(!claims.is_empty(), "{acked} came back");
        acked += claims.len();
        let settled: Vec<_> = claims.into_iter().map(|c| (c, Settle::Ack)).collect();
        assert_eq!(refused(outbox, &settled, at(60_003)), 0);
    }
    assert_eq!(counts(outbox, at(60_004)), Counts::default());
}
