//! Dead letters.

use super::*;

cases![
    ack_supersedes_the_dead_letters_of_its_page_only,
    a_dead_letter_says_how_it_died,
    a_newer_death_replaces_the_older,
    a_long_reason_is_cut_at_a_character,
    junk_is_kept_to_the_byte_and_never_retried,
    retried_letters_are_fresh_jobs,
    a_retried_letter_merges_with_the_waiting_job,
    letters_are_dropped_by_id,
    enqueueing_leaves_the_dead_letter_until_ack,
    a_list_of_letters_shows_of_a_long_line_only_the_beginning,
    letters_of_pages_are_found_by_their_paths,
];

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
        stores: StoreSet::NONE,
        ..death("outside the wiki")
    };
    bury_page(outbox, &job, nowhere.clone(), at(5));
    bury_page(outbox, &job_of("b", "v1"), death("by two"), at(6));
    let mut letters = outbox.dead().expect("dead");
    assert_eq!(
        letters.pop().map(|letter| letter.death),
        Some(death("by two"))
    );
    let dead = letters.remove(0);
    assert_eq!((dead.path, dead.dead_at), (Some(path("w/쪽.md")), at(5)));
    assert_eq!(dead.death, nowhere);
    let line = Job { retry: 4, ..job }.to_line();
    assert_eq!((dead.size, &dead.head), (line.len() as u64, &line));
    assert_eq!(outbox.dead_line(dead.id), Ok(Some(line.into_bytes())));
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
    assert_eq!((dead.len(), &dead[0].path), (2, &None));
    assert_eq!(
        (dead[0].size, &*dead[0].head),
        (12, "not \u{fffd}\0 json\n")
    );
    for letter in &dead {
        assert_eq!(outbox.dead_line(letter.id), Ok(Some(raw.clone())));
    }
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

fn a_list_of_letters_shows_of_a_long_line_only_the_beginning(outbox: &mut dyn Outbox) {
    for (raw, head) in [
        ("쪽".repeat(1000), "쪽".repeat(341)),
        ("x".repeat(1024), "x".repeat(1024)),
        ("y".repeat(300_000), "y".repeat(1024)),
    ] {
        let junk = Junk {
            raw: raw.clone().into_bytes(),
            reason: "no job".into(),
        };
        outbox.bury(&junk, NOW).expect("bury");
        let dead = outbox.dead().expect("dead");
        let letter = dead.last().expect("a letter");
        assert_eq!((letter.size, &letter.head), (raw.len() as u64, &head));
        assert_eq!(letter.is_whole(), raw == head);
        assert_eq!(outbox.dead_line(letter.id), Ok(Some(raw.into_bytes())));
    }
    let ids: Vec<_> = outbox.dead().expect("dead").iter().map(|d| d.id).collect();
    assert_eq!(outbox.drop_dead(&Which::Ids(vec![ids[1]])), Ok(1));
    assert_eq!(outbox.dead_line(ids[1]), Ok(None));
    let left: Vec<_> = outbox.dead().expect("dead").iter().map(|d| d.id).collect();
    assert_eq!(left, [ids[0], ids[2]]);
    assert_eq!(outbox.drop_dead(&Which::All), Ok(2));
}

fn letters_of_pages_are_found_by_their_paths(outbox: &mut dyn Outbox) {
    let names: Vec<String> = (0..150).map(|n| format!("w/{n}.md")).collect();
    for name in &names {
        bury_page(outbox, &job(name), death(name), NOW);
    }
    outbox
        .bury(
            &Junk {
                raw: b"w/1.md".to_vec(),
                reason: String::new(),
            },
            NOW,
        )
        .expect("bury");
    assert_eq!(outbox.dead_of(&[]), Ok(vec![]));
    assert_eq!(outbox.dead_of(&[path("w/150.md")]), Ok(vec![]));
    let all = outbox.dead().expect("dead");
    let mut asked: Vec<_> = names.iter().map(|name| path(name)).collect();
    asked.insert(3, path("not there"));
    let mut found = outbox.dead_of(&asked).expect("letters");
    found.sort_by_key(|letter| letter.id);
    assert_eq!(found[..], all[..150]);
}
