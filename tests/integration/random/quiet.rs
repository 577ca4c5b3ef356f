//! What must hold once all is quiet.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use super::{Behind, Story, pages, snapshot};
use crate::wiki::Wiki;

/// What git says of files that are no pages.
fn others(wiki: &Wiki) -> BTreeSet<String> {
    let status = wiki.git(&["status", "--porcelain", "-z", "-uall", "--no-renames"]);
    let lines = status.split_terminator('\0').map(str::to_owned);
    lines.filter(|line| !is_page(line)).collect()
}

/// Of a line of `git status`.
fn is_page(line: &str) -> bool {
    pages::is_page(&line[3..])
}

impl Story {
    /// Everything works, the user's hands are still: one drain, and all is equal.
    pub(super) fn quiet(&mut self) {
        self.end_beside();
        self.behind.comes_right();
        // A busy machine is no outage.
        let timeout = "WIKI_SYNC_VECTORS_TIMEOUT";
        self.wiki.env.insert(timeout.into(), "1 min".into());
        self.wrong_for = 0;
        // Mended, a page's letter goes by itself. Also one that git brought back.
        for (path, bytes) in snapshot(&self.wiki) {
            if std::str::from_utf8(&bytes).is_err() {
                fs::write(path, "mended\n").unwrap();
            }
        }
        if self.at(".git/index.lock").exists() {
            // A killed drain's, which the next one knows for ours; the user's git must wait for that.
            let ran = self.wiki.ws(&["drain", "--no-wait", "--no-scan"]);
            self.log
                .push(format!("after the lock: {:?} {}", ran.code, ran.err));
            assert!(!self.at(".git/index.lock").exists(), "a lock is left");
        }
        // What is staged otherwise than it stands on disk, or in conflict, would rightly wait for the user.
        self.wiki.git(&["reset", "-q"]);
        let _ = self.wiki.try_git(&["stash", "clear"]);
        let (files, mine) = (snapshot(&self.wiki), others(&self.wiki));
        let report = self.wiki.ws(&["drain", "--json", "--allow-mass-delete"]);
        self.log.push(format!(
            "quiet drain: {:?} {} {}",
            report.code, report.out, report.err
        ));
        assert_eq!(report.code, Some(0), "{} {}", report.out, report.err);
        assert!(snapshot(&self.wiki) == files, "a drain changed files");
        let verify = self.wiki.ws(&["verify", "--json"]).json();
        for (part, nothing) in [
            ("drift", json!([])),
            ("waiting", json!(0)),
            ("dead", json!(0)),
            ("in_sync", json!(true)),
        ] {
            assert_eq!(verify[part], nothing, "{verify}");
        }
        // A folder may be called as if it were a page.
        for skipped in verify["skipped"].as_array().unwrap() {
            let path = skipped["path"].as_str().unwrap();
            assert!(self.at(path).is_dir(), "{skipped}");
        }
        // Its exit code may tell of a watch that was killed.
        let status = self.wiki.ws(&["status", "--json"]).json();
        for part in ["waiting", "delayed", "in_flight", "held", "dead"] {
            assert_eq!(status["outbox"][part], 0, "{status}");
        }
        assert_eq!(status["fresh"], true, "{status}");
        if let Behind::Servers { redis, .. } = &self.behind {
            assert_eq!(redis.cli(&["LLEN", crate::redis::LIST]), "0");
        }
        // Only the user's own is left to commit, as he left it.
        let status = self
            .wiki
            .git(&["status", "--porcelain", "-z", "-uall", "--no-renames"]);
        let pages: Vec<_> = status
            .split_terminator('\0')
            .filter(|line| is_page(line))
            .collect();
        assert_eq!(pages, [""; 0]);
        assert_eq!(others(&self.wiki), mine);
        for left in [".git/index.lock", ".git/wiki-sync-journal"] {
            assert!(!self.at(left).exists(), "{left}");
        }
        let fsck = self.wiki.try_git(&["fsck", "--strict", "--no-dangling"]);
        assert_eq!((fsck.code, fsck.err.as_str()), (Some(0), ""), "fsck");
        // And there is nothing more to do.
        let head = self.wiki.git(&["rev-parse", "HEAD"]);
        let again = self.wiki.json(0, &["drain"]);
        self.wiki.env.insert(timeout.into(), "3 s".into());
        assert_eq!(again["enqueued"], 0, "{again}");
        assert_eq!(self.wiki.git(&["rev-parse", "HEAD"]), head);
    }

    /// Graph and search answer as those of a wiki that was filled with the same pages at once.
    pub(super) fn compare_with_a_fresh_wiki(&self) {
        let fresh = Wiki::with(&[]);
        for (path, bytes) in snapshot(&self.wiki) {
            let path = path
                .strip_prefix(self.wiki.root())
                .unwrap()
                .to_str()
                .unwrap();
            if path.starts_with("wiki-output/") {
                fresh.write(path, bytes);
            }
        }
        fresh.drain();
        let graph = |wiki: &Wiki| wiki.ws(&["graph", "export"]).code(0).json();
        assert_eq!(
            graph(&self.wiki),
            graph(&fresh),
            "the graph depends on its history"
        );
        for word in pages::words() {
            assert_eq!(found(&self.wiki, word), found(&fresh, word), "{word}");
        }
    }
}

/// What a search finds, without its order: equal ranks may stand either way.
fn found(wiki: &Wiki, word: &str) -> BTreeSet<(String, String)> {
    let hits = wiki.json(0, &["search", word, "--limit", "1000"]);
    let text = |hit: &Value, key: &str| hit[key].to_string();
    let hits = hits.as_array().unwrap().iter();
    hits.map(|hit| (text(hit, "path"), text(hit, "heading")))
        .collect()
}
