//! What somebody is told who does not know the tool yet: each message says what is wrong and the way out, and is true.

use std::fs;

use wiki_sync::testing::RedisServer;

use crate::doctor::{said, says};
use crate::redis::on_redis;
use crate::wiki::Wiki;

#[test]
fn a_setting_that_is_none_is_told_before_whatever_fails() {
    let page = "warning: wiki-sync.toml:2: wiki.page is no setting; did you mean wiki.pages?\n";
    let section = "warning: wiki-sync.toml:1: [wikki] is no setting; did you mean [wiki]?\n";
    let variable = "warning: environment variable WIKI_SYNC_WIKI_PAGE is no setting; did you mean WIKI_SYNC_WIKI_PAGES?\n";
    for (file, env, warning) in [
        ("[wiki]\npage = \"docs\"\n", None, page),
        ("[wikki]\npages = \"docs\"\n", None, section),
        ("", Some("docs"), variable),
    ] {
        let mut wiki = Wiki::with(&[("docs/a.md", "# A\n"), ("wiki-sync.toml", file)]);
        fs::remove_dir(wiki.root().join("wiki-output")).unwrap();
        if let Some(value) = env {
            wiki.env.insert("WIKI_SYNC_WIKI_PAGE".into(), value.into());
        }
        for args in [
            &["status"][..],
            &["drain"],
            &["search", "a"],
            &["verify"],
            &["dlq", "list"],
            &["graph", "hubs"],
            &["hooks", "install"],
            &["put", "a.md"],
            &["watch"],
        ] {
            let told = wiki.ws(args).code(1).err;
            assert!(told.starts_with(warning), "{args:?}: {told}");
            assert!(
                told.contains("\nerror: no folder \"wiki-output\""),
                "{told}"
            );
            assert_eq!(told.matches("warning: ").count(), 1, "{args:?}: {told}");
        }
        let told = wiki.ws(&["hooks", "status"]).code(0).err;
        assert_eq!(told, warning);
    }
    // Also where the settings themselves cannot be used, in whichever layer.
    let mut wiki = Wiki::small();
    wiki.write("wiki-sync.toml", "[wiki]\npage = 1\n[git]\ncommit = 7\n");
    wiki.env.insert("WIKI_SYNC_WIKI_PAGE".into(), "x".into());
    let told = wiki.ws(&["status"]).code(4).err;
    for warning in [page, variable] {
        assert!(told.contains(warning), "{told}");
    }
    assert!(
        told.contains("error: wiki-sync.toml:4: git.commit"),
        "{told}"
    );
    let doctor = wiki.json(3, &["doctor"]);
    for what in [
        "wiki.page is no setting",
        "WIKI_SYNC_WIKI_PAGE is no setting",
    ] {
        says(&doctor, "settings", "warning", what, "correct its name");
    }
}

#[test]
fn a_url_that_names_nothing_is_told_with_its_place_and_without_its_password() {
    for (key, url) in [
        ("vectors.url", "foo"),
        ("vectors.url", "http://"),
        ("vectors.url", "http://u:s3cret@:x"),
        ("outbox.url", "foo:s3cret"),
        ("outbox.url", "sqlite:x"),
        ("outbox.url", "redis://u:s3cret@h:port"),
    ] {
        let mut wiki = Wiki::small();
        let flag = wiki.ws(&["status", "--set", &format!("{key}={url}")]);
        let flag = flag.code(2).err;
        let place = format!("error: --set: {key}: ");
        assert!(flag.starts_with(&place), "{flag}");
        let (section, name) = key.split_once('.').unwrap();
        wiki.write(
            "wiki-sync.toml",
            format!("[{section}]\n{name} = \"{url}\"\n"),
        );
        let file = wiki.ws(&["drain"]).code(4).err;
        let place = format!("error: wiki-sync.toml:2: {key}: ");
        assert!(file.starts_with(&place), "{file}");
        wiki.remove("wiki-sync.toml");
        let name = format!("WIKI_SYNC_{section}_{name}").to_uppercase();
        wiki.env.insert(name.clone(), url.into());
        let variable = wiki.ws(&["search", "a"]).code(4).err;
        let place = format!("error: {name}: {key}: ");
        assert!(variable.starts_with(&place), "{variable}");
        for told in [flag, file, variable] {
            assert!(!told.contains("s3cret"), "{told}");
        }
    }
}

#[test]
fn what_would_do_nothing_is_refused() {
    let wiki = Wiki::small();
    for args in [
        &["drain", "--max-jobs", "0"][..],
        &["search", "a", "--limit", "0"],
        &["graph", "hubs", "--limit", "0"],
        &["graph", "neighbors", "a", "--depth", "0"],
    ] {
        let told = wiki.ws(args).code(2).err;
        assert!(told.contains("it must be 1 or more"), "{args:?}: {told}");
    }
    wiki.ws(&["drain", "--max-jobs", "1"]).code(0);
}

#[test]
fn a_page_that_is_gone_is_behind_once_in_each_store() {
    let wiki = Wiki::small();
    wiki.drain();
    wiki.remove("wiki-output/b.md");
    let behind = |wiki: &Wiki| {
        let status = wiki.json(0, &["status"]);
        ["graph", "vectors", "git"].map(|store| status["stores"][store]["behind"].as_u64().unwrap())
    };
    assert_eq!(behind(&wiki), [1, 1, 1]);
    wiki.git(&["add", "-A"]);
    wiki.git(&["commit", "-qm", "gone"]);
    wiki.drain();
    // The same while a merge holds it.
    wiki.git(&["checkout", "-qb", "other"]);
    wiki.write("README", "theirs\n");
    wiki.git(&["commit", "-qam", "theirs"]);
    wiki.git(&["checkout", "-q", "main"]);
    wiki.write("README", "ours\n");
    wiki.git(&["commit", "-qam", "ours"]);
    assert_ne!(wiki.try_git(&["merge", "-q", "other"]).code, Some(0));
    wiki.remove("wiki-output/a.md");
    wiki.json(75, &["drain", "--no-wait"]);
    let [.., git] = behind(&wiki);
    assert_eq!(git, 1);
    // What is to be done is true also where no watch runs.
    let told = wiki.ws(&["status"]).code(0).out;
    assert!(
        told.contains("again at the next `wiki-sync drain`"),
        "{told}"
    );
    assert!(
        told.contains(
            "finish a merge or abort it; then run `wiki-sync drain`, where no `wiki-sync watch` does it"
        ),
        "{told}"
    );
}

#[test]
fn a_search_says_of_a_rejected_page_that_no_drain_takes_it() {
    let wiki = Wiki::small();
    wiki.drain();
    wiki.write("wiki-output/a.md", b"# Alpha \xff\n");
    let follows = "changed since it was indexed: `wiki-sync drain` follows";
    let told = wiki.ws(&["search", "redis"]).code(0).out;
    assert!(told.contains(follows), "{told}");
    wiki.json(3, &["drain"]);
    let told = wiki.ws(&["search", "redis"]).code(0).out;
    assert!(
        told.contains(
            "changed since it was indexed, and rejected as it is now: `wiki-sync dlq list` says why"
        ),
        "{told}"
    );
    let hits = wiki.json(0, &["search", "redis"]);
    assert_eq!(
        (&hits[0]["stale"], &hits[0]["rejected"]),
        (&true.into(), &true.into()),
        "{hits}"
    );
    // Mended, a drain follows again.
    wiki.write("wiki-output/a.md", "# Alpha\n\nRedis\n");
    let told = wiki.ws(&["search", "redis"]).code(0).out;
    assert!(told.contains(follows), "{told}");
    wiki.drain();
    let hits = wiki.json(0, &["search", "redis"]);
    assert_eq!(hits[0]["rejected"], false, "{hits}");
}

fn doctor_finds_them(wiki: &Wiki) {
    let finds = |code: i32, what: &str| {
        let told = wiki.json(code, &["doctor"]);
        says(
            &told,
            "dead letters",
            "fault",
            what,
            "`wiki-sync dlq list` shows",
        );
    };
    assert!(said(&wiki.json(0, &["doctor"]), "dead letters").is_empty());
    wiki.write("wiki-output/x.md", b"\xff");
    wiki.json(3, &["drain"]);
    finds(3, "1 rests");
    wiki.write("wiki-output/y.md", b"\xff");
    wiki.json(3, &["drain"]);
    finds(3, "2 rest");
    wiki.remove("wiki-output/x.md");
    wiki.remove("wiki-output/y.md");
    wiki.drain();
    assert!(said(&wiki.json(0, &["doctor"]), "dead letters").is_empty());
}

#[test]
fn doctor_finds_dead_letters() {
    let wiki = Wiki::small();
    wiki.drain();
    doctor_finds_them(&wiki);
}

#[test]
fn doctor_finds_dead_letters_in_redis() {
    let server = RedisServer::start();
    let wiki = on_redis(&server, Wiki::small());
    wiki.drain();
    doctor_finds_them(&wiki);
}

#[test]
fn doctor_says_how_many_files_more_are_skipped() {
    let wiki = Wiki::small();
    for n in 0..5 {
        let link = wiki.root().join(format!("wiki-output/{n}.md"));
        std::os::unix::fs::symlink("nowhere", link).unwrap();
    }
    let told = wiki.json(0, &["doctor"]);
    let all = "`wiki-sync verify` lists them all";
    says(&told, "pages", "note", "; and 2 more", all);
}

#[test]
fn a_job_of_a_process_that_has_ended_is_told_as_one() {
    let wiki = Wiki::small();
    assert!(wiki.killed_at("drain.claimed", &["drain"]));
    let told = wiki.ws(&["status"]).code(0).out;
    assert!(
        told.contains("which has ended: the next `wiki-sync drain` goes on with it"),
        "{told}"
    );
    let status = wiki.json(0, &["status"]);
    assert_eq!(status["in_flight"][0]["ended"], true, "{status:#}");
    wiki.drain();
    wiki.assert_in_sync();
}

#[test]
fn a_wait_that_was_too_short_says_so() {
    let wiki = Wiki::small();
    let late = wiki.ws(&["status", "--wait-fresh", "0.2"]).code(75);
    assert_eq!(
        late.err,
        "warning: not fresh within 0.2 s, the time that --wait-fresh was given\n"
    );
    wiki.drain();
    assert_eq!(wiki.ws(&["status", "--wait-fresh"]).code(0).err, "");
    // Here time is not what is lacking.
    wiki.write("wiki-output/x.md", b"\xff");
    wiki.json(3, &["drain"]);
    assert_eq!(wiki.ws(&["status", "--wait-fresh"]).code(3).err, "");
}

#[test]
fn a_page_with_a_nul_byte_has_a_way_out() {
    let wiki = Wiki::small();
    wiki.write("wiki-output/x.md", "# a\0b\n");
    wiki.json(3, &["drain"]);
    let told = wiki.ws(&["dlq", "list"]).code(0).out;
    assert!(told.contains("`tr -d '\\000' < OLD > NEW`"), "{told}");
}

#[test]
fn the_likeliest_command_is_suggested_first_and_no_hidden_one() {
    let wiki = Wiki::bare_folder();
    let told = wiki.ws(&["serach"]).code(2).err;
    assert!(
        told.contains("similar subcommands exist: 'search', "),
        "{told}"
    );
    for typed in ["hok", "hookk"] {
        let told = wiki.ws(&[typed]).code(2).err;
        assert!(
            told.contains("'hooks'") && !told.contains("'hook'"),
            "{told}"
        );
    }
}

#[test]
fn the_help_of_init_says_that_settings_are_written_down() {
    let wiki = Wiki::bare_folder();
    let told = wiki.ws(&["init", "--help"]).code(0).out;
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        told.contains("`init` writes it into the settings file"),
        "{told}"
    );
}

#[test]
fn init_says_what_is_next_where_there_are_pages() {
    let wiki = Wiki::small();
    let told = wiki.ws(&["init"]).code(0).out;
    let next = "next: `wiki-sync drain` brings the pages below wiki-output/ to every store\n";
    assert!(told.ends_with(next), "{told}");
    let wiki = Wiki::with(&[]);
    let told = wiki.ws(&["init"]).code(0).out;
    let next = "next: write Markdown pages below wiki-output/, then run `wiki-sync drain`\n";
    assert!(told.ends_with(next), "{told}");
}

#[test]
fn init_tells_how_pages_at_the_root_come_into_the_wiki_and_what_it_says_does_it() {
    let wiki = Wiki::with(&[
        ("one.md", "# One\n"),
        ("-two words.md", "# Two\n"),
        ("three.markdown", "# Three\n"),
        ("README.md", "# Read me\n"),
        ("guides/g.md", "# G\n"),
        ("reference/r.md", "# R\n"),
        ("reference/s.md", "# S\n"),
    ]);
    wiki.git(&["add", "-A"]);
    wiki.git(&["commit", "-qm", "pages"]);
    let told = wiki.ws(&["init"]).code(0).err;
    let root = "git mv -- *.markdown *.md wiki-output/ && git mv wiki-output/README.md .";
    let folders = "git mv -- reference guides wiki-output/";
    assert_eq!(
        told.lines().collect::<Vec<_>>(),
        [
            "note: 2 Markdown files stand in reference/: `wiki-sync init --set wiki.pages=reference` takes those",
            "note: 1 Markdown file stands in guides/: `wiki-sync init --set wiki.pages=guides` takes those",
            &format!(
                "note: 3 Markdown files lie at the root, which itself cannot be the wiki: `{root}` moves them into its folder"
            ),
            &format!(
                "note: one folder is the wiki: to have more than one of them in it, move them into it, as by `{folders}`"
            ),
        ]
    );
    for typed in [root, folders] {
        let mut shell = wiki.other("sh".as_ref());
        let done = shell.args(["-c", typed]).output().unwrap();
        assert!(done.status.success(), "{typed}: {done:?}");
    }
    assert!(wiki.root().join("README.md").is_file());
    let pages = wiki.json(0, &["status"]);
    assert_eq!(pages["pages"], 6, "{pages}");
}

#[test]
fn init_says_how_many_folders_with_markdown_it_does_not_name() {
    let wiki = Wiki::with(&[]);
    for n in 0..13 {
        wiki.write(&format!("f{n:02}/a.md"), "# A\n");
    }
    let told = wiki.ws(&["init"]).code(0).err;
    assert!(
        told.contains("note: 3 Markdown files stand in 3 more folders\n"),
        "{told}"
    );
    // What git does not have it cannot move.
    assert!(told.contains("`mv -- f00 f01 "), "{told}");
}
