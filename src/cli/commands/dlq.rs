//! `wiki-sync dlq`

use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::Context;
use crate::cli::error::CommandError;
use crate::cli::exit::Exit;
use crate::cli::open::Workspace;
use crate::cli::out::{Style, clean, count, roughly};
use crate::cli::paths;
use crate::model::{StoreName, Timestamp};
use crate::outbox::{DeadLetter, Outbox, Which};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum DlqCommand {
    /// List the dead letters, oldest first
    List,
    /// Show one dead letter whole
    Show {
        /// Its id
        id: i64,
    },
    /// Put dead letters back as fresh jobs
    Retry(WhichArgs),
    /// Forget dead letters; a page that is still broken dies again at the next drain
    Drop(WhichArgs),
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct WhichArgs {
    /// Ids, as `dlq list` shows them
    #[arg(value_name = "ID")]
    ids: Vec<i64>,
    /// Those of this page
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Those whose reason holds this text
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// All of them
    #[arg(long)]
    all: bool,
}

#[derive(Serialize)]
struct Letter {
    id: i64,
    path: Option<String>,
    /// The store that refused the page, where it was one alone.
    store: Option<&'static str>,
    /// All that did; none, when the page came to none.
    stores: Vec<&'static str>,
    reason: String,
    attempts: u32,
    /// Milliseconds since the epoch.
    dead_at: i64,
    /// The raw line's length in bytes.
    size: u64,
    /// The job as its producer wrote it; the line as text where it is no JSON, and its beginning where a list does not
    /// show it whole.
    job: Value,
}

impl Letter {
    /// Takes the line whole where it is given, else its beginning.
    fn of(dead: &DeadLetter, line: Option<&[u8]>) -> Self {
        let job = match line {
            Some(line) => serde_json::from_slice(line).ok(),
            None if dead.is_whole() => serde_json::from_str(&dead.head).ok(),
            None => None,
        };
        let text = || match line {
            Some(line) => String::from_utf8_lossy(line).into(),
            None => dead.head.as_str().into(),
        };
        Self {
            id: dead.id,
            path: dead.path.as_ref().map(ToString::to_string),
            store: dead.death.stores.only().map(StoreName::as_str),
            stores: dead.death.stores.iter().map(StoreName::as_str).collect(),
            reason: dead.death.reason.clone(),
            attempts: dead.death.attempts,
            dead_at: dead.dead_at.0,
            size: dead.size,
            job: job.unwrap_or_else(text),
        }
    }

    /// The stores that refused the page; `none`, where it came to none.
    fn whose(&self, none: &str) -> String {
        match &self.stores[..] {
            [] => none.into(),
            stores => stores.join(", "),
        }
    }

    fn name(&self) -> &str {
        self.path.as_deref().unwrap_or("(a line that is no job)")
    }
}

pub(super) fn run(command: DlqCommand, cx: &mut Context) -> Result<Exit, CommandError> {
    let ws = match command {
        DlqCommand::List | DlqCommand::Show { .. } => cx.workspace_to_ask()?,
        DlqCommand::Retry(_) | DlqCommand::Drop(_) => cx.workspace()?,
    };
    let mut outbox = ws.outbox()?;
    match command {
        DlqCommand::List => list(outbox.as_mut(), cx),
        DlqCommand::Show { id } => show(outbox.as_mut(), id, cx),
        DlqCommand::Retry(which) => retry(outbox.as_mut(), named(&ws, which), cx),
        DlqCommand::Drop(which) => discard(outbox.as_mut(), named(&ws, which), cx),
    }
}

/// Takes the path as it may be typed for any command; one that is no page's stays as it is, since a letter's may be none.
fn named(ws: &Workspace, mut which: WhichArgs) -> WhichArgs {
    if let Some(typed) = &which.path
        && let Ok(path) = paths::page(&ws.wiki, &ws.start, typed.as_ref())
    {
        which.path = Some(path.to_string());
    }
    which
}

fn list(outbox: &mut dyn Outbox, cx: &mut Context) -> Result<Exit, CommandError> {
    let dead = outbox.dead()?;
    let letters: Vec<_> = dead.iter().map(|dead| Letter::of(dead, None)).collect();
    if cx.out.is_json() {
        cx.out.json(&letters);
        return Ok(Exit::Ok);
    }
    let now = Timestamp::now();
    for letter in &letters {
        let name = cx.out.paint(Style::Bold, clean(letter.name())).into_owned();
        cx.out.line(format_args!(
            "{:>4}  {name}  {}  {}  {} ago",
            letter.id,
            letter.whose("page"),
            count(letter.attempts.into(), "attempt"),
            roughly(Timestamp(letter.dead_at).until(now)),
        ));
        cx.out.line(format_args!("      {}", clean(&letter.reason)));
    }
    if letters.is_empty() {
        cx.out.say("no dead letters");
    }
    if letters.iter().any(|letter| letter.path.is_some()) {
        cx.out.say(
            "an edit of the page wakes its letter; else `wiki-sync dlq retry ID` or `dlq drop ID`",
        );
    }
    if letters.iter().any(|letter| letter.path.is_none()) {
        cx.out.say(
            "a line that is no job stays until `wiki-sync dlq drop ID`; its producer must mend it and write it again",
        );
    }
    Ok(Exit::Ok)
}

fn show(outbox: &mut dyn Outbox, id: i64, cx: &mut Context) -> Result<Exit, CommandError> {
    let dead = outbox.dead()?;
    let found = dead.iter().find(|letter| letter.id == id);
    let found = found.ok_or_else(|| unknown(&[id]))?;
    // It may have been taken away just now.
    let line = outbox.dead_line(id)?.ok_or_else(|| unknown(&[id]))?;
    let letter = Letter::of(found, Some(&line));
    if cx.out.is_json() {
        cx.out.json(&letter);
        return Ok(Exit::Ok);
    }
    let raw = String::from_utf8_lossy(&line);
    let rows = [
        ("id", letter.id.to_string()),
        ("page", letter.name().into()),
        ("store", letter.whose("none")),
        ("reason", letter.reason.clone()),
        ("attempts", letter.attempts.to_string()),
        ("died", found.dead_at.utc()),
        ("content", found.death.version.clone()),
        ("job", raw.into_owned()),
    ];
    for (name, value) in rows {
        cx.out.line(format_args!("{name:9} {}", clean(&value)));
    }
    Ok(Exit::Ok)
}

fn retry(
    outbox: &mut dyn Outbox,
    which: WhichArgs,
    cx: &mut Context,
) -> Result<Exit, CommandError> {
    let (which, asked) = choose(outbox, which)?;
    let retried = outbox.retry_dead(&which, Timestamp::now())?;
    let stayed = asked.saturating_sub(retried);
    if cx.out.is_json() {
        cx.out
            .json(&json!({ "retried": retried, "stayed": stayed }));
        return Ok(Exit::Ok);
    }
    cx.out.say(format_args!(
        "{} put back; `wiki-sync drain` tries them",
        count(retried, "job")
    ));
    if stayed > 0 {
        cx.out.trouble(format_args!(
            "{} stayed: a line that names no page can only be dropped",
            count(stayed, "letter")
        ));
    }
    Ok(Exit::Ok)
}

fn discard(
    outbox: &mut dyn Outbox,
    which: WhichArgs,
    cx: &mut Context,
) -> Result<Exit, CommandError> {
    let (which, _) = choose(outbox, which)?;
    let dropped = outbox.drop_dead(&which)?;
    if cx.out.is_json() {
        cx.out.json(&json!({ "dropped": dropped }));
    } else {
        cx.out.say(format_args!(
            "{} dropped; a page that is still broken comes back at the next drain: mend it, or take it out with wiki.ignore",
            count(dropped, "letter")
        ));
    }
    Ok(Exit::Ok)
}

/// Returns which letters are meant and how many; an id that is none stops the whole, as do a path or reason that fit none.
fn choose(outbox: &mut dyn Outbox, args: WhichArgs) -> Result<(Which, u64), CommandError> {
    let dead = outbox.dead()?;
    if args.all {
        return Ok((Which::All, dead.len() as u64));
    }
    if args.path.is_some() || args.reason.is_some() {
        let fits = |letter: &&DeadLetter| {
            let path = letter.path.as_ref().map(crate::model::PagePath::as_str);
            args.path
                .as_deref()
                .is_none_or(|wanted| path == Some(wanted))
                && (args.reason.as_deref()).is_none_or(|text| letter.death.reason.contains(text))
        };
        if args.reason.as_deref() == Some("") {
            return Err(CommandError::new("the reason is empty").exit(Exit::Usage));
        }
        let ids: Vec<_> = dead.iter().filter(fits).map(|letter| letter.id).collect();
        if ids.is_empty() {
            return Err(CommandError::new("no dead letter fits")
                .hint("`wiki-sync dlq list` shows them; --path is as it stands there"));
        }
        let asked = ids.len() as u64;
        return Ok((Which::Ids(ids), asked));
    }
    let mut ids = args.ids;
    ids.sort_unstable();
    ids.dedup();
    let none: Vec<_> = ids
        .iter()
        .copied()
        .filter(|id| dead.iter().all(|letter| letter.id != *id))
        .collect();
    if !none.is_empty() {
        return Err(unknown(&none));
    }
    let asked = ids.len() as u64;
    Ok((Which::Ids(ids), asked))
}

fn unknown(ids: &[i64]) -> CommandError {
    let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
    CommandError::new(format!("no dead letter has the id {}", ids.join(", ")))
        .hint("`wiki-sync dlq list` shows them; an edit of the page takes its letter away")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::StoreSet;
    use crate::outbox::Death;

    #[test]
    fn a_letter_of_a_line_that_is_no_job_keeps_the_line_as_text() {
        let dead = |head: &str, size: u64| DeadLetter {
            id: 1,
            path: None,
            death: Death {
                stores: StoreSet::NONE,
                reason: "no job".into(),
                attempts: 0,
                version: String::new(),
                fingerprint: String::new(),
            },
            dead_at: Timestamp(0),
            size,
            head: head.into(),
        };
        let line = r#"{"output_path":"a.md"}"#;
        let job = json!({"output_path": "a.md"});
        for (letter, shown) in [
            (
                Letter::of(&dead("not json {", 10), None),
                json!("not json {"),
            ),
            (Letter::of(&dead(line, 22), None), job.clone()),
            // Only its beginning is known, which happens to be JSON.
            (Letter::of(&dead(line, 9999), None), json!(line)),
            (Letter::of(&dead("{", 22), Some(line.as_bytes())), job),
            (Letter::of(&dead("", 2), Some(b"\xff{")), json!("\u{fffd}{")),
        ] {
            assert_eq!(letter.job, shown);
        }
    }
}
