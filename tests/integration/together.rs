//! Several of us at once on one checkout.

use std::process::{Child, Stdio};

use crate::wiki::Wiki;

fn many(count: usize) -> Wiki {
    let wiki = Wiki::with(&[]);
    for n in 0..count {
        wiki.write(
            &format!("wiki-output/d{}/p{n}.md", n % 7),
            format!(
                "# Page {n}\n\nsee [[p{}]] about topic{}\n\n## More\n\nwords {n}\n",
                (n * 3) % count,
                n % 5
            ),
        );
    }
    wiki
}

fn start(wiki: &Wiki, args: &[&str]) -> Child {
    wiki.binary()
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn end(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn drains_searches_and_verifies_at_once_take_turns_and_none_fails() {
    let wiki = many(300);
    let drains: Vec<_> = (0..3).map(|_| start(&wiki, &["drain"])).collect();
    let searches: Vec<_> = (0..6)
        .map(|n| start(&wiki, &["search", &format!("topic{}", n % 5)]))
        .collect();
    let verify = start(&wiki, &["verify"]);
    for child in drains.into_iter().chain(searches) {
        let (code, err) = end(child);
        // A search that was first notes that nothing is indexed yet.
        assert!(code == Some(0) && !err.contains("error"), "{code:?} {err}");
    }
    // It may look at any moment, so it may find drift; it must end and say so.
    let (code, err) = end(verify);
    assert!(matches!(code, Some(0 | 3 | 75)), "{code:?} {err}");
    wiki.assert_in_sync();
    assert_eq!(
        wiki.git(&["log", "--format=%s"]).lines().count(),
        2,
        "no page is committed twice"
    );
}

#[test]
fn puts_beside_a_drain_all_arrive() {
    let wiki = many(40);
    let drain = start(&wiki, &["drain", "--timeout", "3"]);
    let puts: Vec<_> = (0..8)
        .map(|n| {
            let mut child = wiki
                .binary()
                .args(["put", &format!("wiki-output/put{n}.md")])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            std::io::Write::write_all(
                &mut child.stdin.take().unwrap(),
                format!("# Put {n}\n").as_bytes(),
            )
            .unwrap();
            child
        })
        .collect();
    for child in puts {
        assert_eq!(end(child), (Some(0), String::new()));
    }
    assert_eq!(end(drain), (Some(0), String::new()));
    assert_eq!(
        wiki.json(0, &["status"])["fresh"],
        true,
        "the running drain took them all"
    );
    wiki.assert_in_sync();
}

#[test]
fn variables_of_a_hook_do_not_lead_elsewhere() {
    let mut wiki = Wiki::small();
    let other = Wiki::small();
    let index = other.root().join(".git/index");
    let before = std::fs::read(&index).unwrap();
    for (name, value) in [
        ("GIT_DIR", other.root().join(".git")),
        ("GIT_WORK_TREE", other.root()),
        ("GIT_INDEX_FILE", index.clone()),
        ("GIT_OBJECT_DIRECTORY", other.root().join("nowhere")),
    ] {
        wiki.env.insert(name.into(), value.display().to_string());
    }
    let drained = wiki.json(0, &["drain"]);
    wiki.env.clear();
    assert_eq!(drained["processed"], 3);
    wiki.assert_in_sync();
    assert_eq!(
        std::fs::read(&index).unwrap(),
        before,
        "the other repository is untouched"
    );
    assert_eq!(other.git(&["log", "--format=%s"]), "start\n");
}
