//! The fenced blocks of a Markdown text, and how what a block shows is compared with what came.

/// A fenced block.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// The line of its first fence.
    pub(super) line: usize,
    pub(super) language: String,
    pub(super) text: String,
    pub(super) is_empty: bool,
    pub(super) goes_on: bool,
    pub(super) before: String,
    pub(super) meanwhile: Option<String>,
    pub(super) exit: i32,
    pub(super) skip: Option<String>,
}

/// Returns the blocks of a text.
pub(super) fn of(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut next = Block::default();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim_start();
        if let Some(first) = line.strip_prefix("<!-- test: ") {
            let mut said = first.to_owned();
            while !said.ends_with("-->") {
                let (_, more) = lines.next().expect("the comment ends");
                said += "\n";
                said += more.get(indent..).unwrap_or("");
            }
            next.heed(said.trim_end_matches("-->").trim_end());
        } else if let Some(language) = line.strip_prefix("```") {
            next.line = at + 1;
            language.clone_into(&mut next.language);
            for (_, line) in lines.by_ref() {
                let line = line.get(indent..).unwrap_or("");
                if line == "```" {
                    break;
                }
                next.text += line;
                next.text += "\n";
            }
            blocks.push(std::mem::take(&mut next));
        }
    }
    blocks
}

impl Block {
    fn heed(&mut self, said: &str) {
        let (word, rest) = said.split_once([' ', '\n']).unwrap_or((said, ""));
        match word {
            "empty" => self.is_empty = true,
            "goes" => self.goes_on = true,
            "before" => rest.clone_into(&mut self.before),
            "while" => self.meanwhile = Some(rest.to_owned()),
            "exit" => self.exit = rest.parse().expect("a number"),
            "skip" => self.skip = Some(rest.to_owned()),
            other => panic!("nobody knows what {other:?} before a block means"),
        }
    }

    /// Returns the commands of a console block, each with what it is shown to print.
    pub(super) fn commands(&self) -> Vec<(String, Vec<String>)> {
        let mut commands: Vec<(String, Vec<String>)> = Vec::new();
        for line in self.text.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                commands.push((command.to_owned(), Vec::new()));
                continue;
            }
            let (command, shown) = commands.last_mut().expect("a console begins with `$ `");
            match line.strip_prefix("> ").or((line == ">").then_some("")) {
                Some(more) if shown.is_empty() => {
                    *command += "\n";
                    *command += more;
                }
                _ => shown.push(line.to_owned()),
            }
        }
        commands
    }
}

/// Says whether these lines are what was shown: `…` alone in a line stands for any lines, within one for any text; what
/// varies from run to run is not compared.
pub(super) fn agree(shown: &[String], came: &[String]) -> bool {
    match shown.split_first() {
        None => came.is_empty(),
        Some((line, rest)) if line.trim() == "…" => {
            (0..=came.len()).any(|skipped| agree(rest, &came[skipped..]))
        }
        Some((line, rest)) => came.split_first().is_some_and(|(first, more)| {
            is_like(&steady(line), &steady(first)) && agree(rest, more)
        }),
    }
}

fn is_like(shown: &str, came: &str) -> bool {
    match shown.split_once('…') {
        None => shown == came,
        Some((start, rest)) => came.strip_prefix(start).is_some_and(|came| {
            came.char_indices()
                .map(|(at, _)| at)
                .chain([came.len()])
                .any(|at| is_like(rest, &came[at..]))
        }),
    }
}

/// Returns a line with words in the place of times, commits and fractions, and one space in the place of several.
fn steady(line: &str) -> String {
    let mut steady = String::new();
    for word in line.split_whitespace() {
        if !steady.is_empty() {
            steady.push(' ');
        }
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        let kind = if is_time(bare) {
            "TIME"
        } else if is_commit(bare) {
            "COMMIT"
        } else if is_fraction(bare) {
            "NUMBER"
        } else {
            bare
        };
        if bare.is_empty() {
            steady += word;
        } else {
            steady += &word.replacen(bare, kind, 1);
        }
    }
    steady
}

fn is_time(word: &str) -> bool {
    let parts: Vec<&str> = word.split(':').collect();
    parts.len() == 3
        && parts
            .iter()
            .all(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit()))
}

fn is_commit(word: &str) -> bool {
    (7..=40).contains(&word.len())
        && word
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        && word.bytes().any(|b| b.is_ascii_digit())
}

fn is_fraction(word: &str) -> bool {
    word.split_once('.').is_some_and(|(whole, part)| {
        [whole, part]
            .iter()
            .all(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    })
}

#[test]
fn blocks_are_read_with_what_stands_before_them() {
    let text = "# A\n\n<!-- test: before\ntrue\n-->\n<!-- test: exit 3 -->\n```console\n$ a <<E\n> x\n> E\nout\n```\n\n1. b\n\n   ```sh\n   c\n\n   d\n   ```\n";
    let blocks = of(text);
    assert_eq!(blocks.len(), 2, "{blocks:#?}");
    assert_eq!((blocks[0].line, blocks[0].exit), (7, 3));
    assert_eq!(blocks[0].before, "true");
    assert_eq!(
        blocks[0].commands(),
        [("a <<E\nx\nE".to_owned(), vec!["out".to_owned()])]
    );
    assert_eq!((blocks[1].text.as_str(), blocks[1].exit), ("c\n\nd\n", 0));
}

#[test]
fn what_varies_is_not_compared_and_all_else_is() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let agrees = |shown, came| agree(&lines(shown), &lines(came));
    assert!(agrees(
        "git   3 applied  bb75fc6b7a",
        "git 3 applied 0123456789"
    ));
    assert!(agrees("12:03:01  0.02 s", "23:59:59 1.75 s"));
    assert!(agrees("a\n…\nb", "a\nx\ny\nb") && agrees("a …: b", "a c d: b"));
    assert!(!agrees("git 3 applied", "git 2 applied"));
    assert!(!agrees("a", "a\nb") && !agrees("a\n…", "b"));
}
