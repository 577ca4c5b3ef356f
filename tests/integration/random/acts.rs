//! What a user, his producers and his git do between drains.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::json;

use super::pages;
use super::{Story, snapshot};
use crate::redis::LIST;

const BRANCHES: [&str; 2] = ["b0", "b1"];

impl Story {
    /// Does one thing, and says what it was; a command of the user's may fail.
    #[allow(clippy::too_many_lines)] // a list
    pub(super) fn act(&mut self) -> String {
        match self.dice.below(100) {
            0..=19 => {
                let path = pages::path(&mut self.dice);
                let text = format!(
                    "{}{}",
                    pages::front_matter(&mut self.dice),
                    pages::body(&mut self.dice)
                );
                self.save(&path, &text)
            }
            20..=25 => {
                let path = pages::path(&mut self.dice);
                let earlier = self.texts.get(&path).cloned().unwrap_or_default();
                // Or what another page held once: two pages with the same bytes.
                let all: Vec<&String> = self.texts.values().flatten().collect();
                let text = match (earlier.len(), all.len()) {
                    (_, 0) => String::new(),
                    (0, more) => all[self.dice.below(more)].clone(),
                    (some, _) => earlier[self.dice.below(some)].clone(),
                };
                self.save(&path, &text)
            }
            26..=30 => {
                // Other labels and tags over the same text.
                let Some(path) = self.some_page() else {
                    return "no page".into();
                };
                let Ok(text) = fs::read_to_string(self.at(&path)) else {
                    return "no text".into();
                };
                let rest = text
                    .strip_prefix("---\n")
                    .and_then(|rest| rest.split_once("\n---\n"))
                    .map_or(text.as_str(), |(_, rest)| rest);
                let text = format!("{}{rest}", pages::front_matter(&mut self.dice));
                self.save(&path, &text)
            }
            31..=36 => {
                let Some(path) = self.some_page() else {
                    return "no page".into();
                };
                let to = if self.dice.below(2) == 0 {
                    pages::path(&mut self.dice)
                } else {
                    pages::other_spelling(&path, &mut self.dice)
                };
                self.rename(&path, &to)
            }
            37..=42 => {
                let Some(path) = self.some_page() else {
                    return "no page".into();
                };
                fs::remove_file(self.at(&path)).unwrap();
                format!("delete {path}")
            }
            43..=45 => {
                let from = format!("wiki-output/{}", self.dice.one_of(&pages::FOLDERS[1..]));
                let to = format!("wiki-output/{}", self.dice.one_of(&pages::FOLDERS[1..]));
                // A folder may be called as if it were a page.
                let to = format!("{to}{}", self.dice.one_of(&["moved", "moved2", "a.md"]));
                self.rename(from.trim_end_matches('/'), &to)
            }
            46 => {
                let from = format!("wiki-output/{}", self.dice.one_of(&pages::FOLDERS[1..]));
                let _ = fs::remove_dir_all(self.at(&from));
                format!("rm -r {from}")
            }
            47..=48 => {
                let file = *self
                    .dice
                    .one_of(&["other.txt", pages::PICTURE, "notes/n.md"]);
                let round = self.dice.below(3);
                self.wiki.write(file, format!("mine {round}\n"));
                format!("write {file}")
            }
            49 => {
                let path = pages::path(&mut self.dice);
                let said = self.save(&path, "");
                if self.at(&path).is_file() {
                    fs::write(self.at(&path), b"\xff not UTF-8\n").unwrap();
                }
                format!("{said}, not UTF-8")
            }
            50 => self.mv(),
            51..=52 => self.put(),
            53..=70 => self.git(),
            71..=84 => self.enqueue(),
            _ => self.push(),
        }
    }

    pub(super) fn save(&mut self, path: &str, text: &str) -> String {
        // A folder may stand where the page was, or a page where its folder was.
        let at = self.at(path);
        if at.is_dir() || fs::create_dir_all(at.parent().unwrap()).is_err() {
            return format!("no place for {path}");
        }
        let mtime = fs::metadata(&at).and_then(|meta| meta.modified());
        fs::write(&at, text).unwrap();
        if let Ok(mtime) = mtime
            && self.dice.below(8) == 0
        {
            // As some programs do: the time says that nothing was changed.
            let file = fs::File::options().write(true).open(&at).unwrap();
            file.set_modified(mtime).unwrap();
        }
        let texts = self.texts.entry(path.to_owned()).or_default();
        texts.push(text.to_owned());
        format!("save {path} ({} bytes)", text.len())
    }

    fn rename(&mut self, from: &str, to: &str) -> String {
        let target = self.at(to);
        if target.exists() && self.dice.below(3) > 0 {
            return format!("{to} is there");
        }
        let _ = fs::create_dir_all(target.parent().unwrap());
        let by_git = self.dice.below(3) == 0;
        let done = if by_git {
            self.wiki.try_git(&["mv", from, to]).code == Some(0)
        } else {
            fs::rename(self.at(from), target).is_ok()
        };
        format!("rename {from} to {to} (by git: {by_git}): {done}")
    }

    /// Ours, which writes links anew: the only one that may change a page's bytes.
    fn mv(&mut self) -> String {
        let Some(from) = self.some_page() else {
            return "no page".into();
        };
        let to = pages::path(&mut self.dice);
        if self.behind.makes_wait() {
            return "mv would wait".into();
        }
        let before = snapshot(&self.wiki);
        let ran = self.wiki.ws(&["mv", &from, &to, "--json"]);
        assert!(
            matches!(ran.code, Some(0 | 1 | 3 | 4 | 75)),
            "mv {from} {to}: {:?} {}",
            ran.code,
            ran.err
        );
        // It moves all or nothing; moved, a store may be owed for it.
        let is_moved = self.at(&to).is_file() && !self.at(&from).exists();
        let is_untouched = snapshot(&self.wiki) == before;
        match ran.code {
            Some(0) => assert!(is_moved || from == to, "mv {from} {to}"),
            Some(3 | 75) => assert!(is_moved || is_untouched, "mv {from} {to}: {}", ran.out),
            _ => assert!(is_untouched, "mv {from} {to}: {}", ran.err),
        }
        format!("mv {from} {to}: {:?} {}", ran.code, ran.err.trim())
    }

    fn put(&mut self) -> String {
        let path = pages::path(&mut self.dice);
        let text = format!("# Put\n\n{}", pages::body(&mut self.dice));
        let mut child = self
            .wiki
            .binary()
            .args(["put", &path])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It may refuse before it has read.
        let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
        let ended = child.wait_with_output().unwrap();
        let code = ended.status.code();
        let err = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(
            matches!(code, Some(0 | 1 | 75)),
            "put {path}: {code:?} {err}"
        );
        if code == Some(0) {
            assert_eq!(fs::read_to_string(self.at(&path)).unwrap(), text);
            self.texts.entry(path.clone()).or_default().push(text);
        }
        format!("put {path}: {code:?} {}", err.trim())
    }

    fn git(&mut self) -> String {
        let page = self.some_page().unwrap_or_else(|| "other.txt".into());
        let branch = *self.dice.one_of(&BRANCHES);
        let said: Vec<&str> = match self.dice.below(18) {
            0 | 1 => vec!["add", "-A"],
            2 | 3 => vec!["add", "--", &page],
            4 => vec!["commit", "-qm", "user"],
            5 | 6 => vec!["commit", "-qam", "user"],
            7 => vec!["commit", "-q", "--amend", "--no-edit"],
            8 => vec!["checkout", "-q", "-b", branch],
            9 => vec!["checkout", "-q", branch],
            10 => vec!["checkout", "-qf", branch],
            11 => vec!["reset", "-q", "--mixed", "HEAD~1"],
            12 => vec!["reset", "-q", "--soft", "HEAD~1"],
            13 => vec!["reset", "-q", "--hard", "HEAD~1"],
            14 => vec!["reset", "-q", "--hard"],
            15 => vec!["rm", "-qf", "--", &page],
            16 => vec!["stash", "-q", "-u"],
            _ => vec!["stash", "pop", "-q"],
        };
        let ran = self.wiki.try_git(&said);
        format!("git {said:?}: {:?}", ran.code)
    }

    fn enqueue(&mut self) -> String {
        let mut args = vec!["enqueue".to_owned()];
        for _ in 0..=self.dice.below(3) {
            args.push(pages::path(&mut self.dice));
        }
        if self.dice.below(2) == 0 {
            args.push(format!("--repo=r{}", self.dice.below(2)));
            args.push(format!("--commit=c{}", self.dice.below(3)));
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let ran = self.wiki.ws(&args);
        // A page that nobody ever heard of is named by mistake.
        let is_mistake = ran.code == Some(1) && ran.err.contains("no store was ever given one");
        let expected = if self.is_outbox_away() { 75 } else { 0 };
        assert!(
            is_mistake || ran.code == Some(expected),
            "{args:?}: {:?} {}",
            ran.code,
            ran.err
        );
        format!("{args:?}: {:?}", ran.code)
    }

    /// As a producer does.
    fn push(&mut self) -> String {
        let path = pages::path(&mut self.dice);
        let line = json!({
            "sha": "", "output_path": path, "repo": format!("r{}", self.dice.below(2)),
            "commit_sha": format!("c{}", self.dice.below(3)), "retry": self.dice.below(3),
        });
        match self.behind.redis() {
            Some(redis) => {
                redis.cli(&["RPUSH", LIST, &line.to_string()]);
                format!("push {line}")
            }
            None => self.enqueue(),
        }
    }
}
