//! Going in and coming out: order, merging, places.

use super::*;

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
];

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
    assert_eq!(outbox.claim(0, LEASE, NOW), Ok(Claims::default()));
    let two = outbox.claim(2, LEASE, NOW).expect("claim").jobs;
    let rest = outbox.claim(2, LEASE, NOW).expect("claim").jobs;
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
    // The last one names no content, which makes the named one doubtful.
    assert_eq!(take_one(outbox, NOW).job, job("a"));
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
    let others = outbox.claim(2, LEASE, at(1)).expect("claim").jobs;
    assert_eq!(names(&others), ["b", "c"]);
    assert_eq!(take(outbox, at(1)), []);
    assert_eq!(counts(outbox, at(1)).waiting, 1);
    end(outbox, &first, Settle::Ack, at(2));
    assert_eq!(take_one(outbox, at(2)).job, job_of("a", "v2"));
}
