//! Whether git will run the hooks: each link of the chain is looked at, from git's own word on its folder to the program.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Serialize;

use super::block::{self, Block};
use super::change::{Seen, is_executable};
use super::places::{HooksPath, Places};
use super::{Event, HooksError};

/// Where the hooks stand.
#[derive(Debug, Clone, Serialize)]
pub struct HooksStatus {
    /// Every hook has our lines.
    pub installed: bool,
    /// Git will run every one of them, and each finds its program.
    pub runs: bool,
    /// The folder of the repository's hooks.
    pub folder: String,
    /// The setting that leads git elsewhere.
    pub elsewhere: Option<HooksPath>,
    /// The folder that git runs hooks from.
    pub runs_from: String,
    /// Each hook.
    pub hooks: Vec<HookStatus>,
    /// What may be done where git looks elsewhere and runs nothing of ours there.
    pub hints: Vec<String>,
}

/// Where one hook stands.
#[derive(Debug, Clone, Serialize)]
pub struct HookStatus {
    /// The hook.
    pub name: &'static str,
    /// Whether it has our lines.
    pub installed: bool,
    /// Whether git will run them and they find their program.
    pub runs: bool,
    /// The program that they run.
    pub program: Option<String>,
    /// Why not, where not; or what is to be known although it runs.
    pub why: Option<String>,
}

/// Looks whether git will run the hooks; changes nothing and runs none of them. `program` is the one that hints name.
///
/// # Errors
/// When git cannot be asked, or a hook cannot be read.
pub fn status(places: &Places, program: &str) -> Result<HooksStatus, HooksError> {
    let from = places.git.runs_from()?;
    let elsewhere = match &places.elsewhere {
        Some(setting) if setting.is_off => Some(format!(
            "core.hooksPath = {:?} ({}): {}",
            setting.value,
            setting.origin,
            setting.effect()
        )),
        Some(setting) => Some(format!(
            "git looks for hooks elsewhere: core.hooksPath = {:?} ({})",
            setting.value, setting.origin
        )),
        None => {
            let same = fs::canonicalize(&from).ok() == fs::canonicalize(&places.folder).ok();
            (!same).then(|| format!("git looks for hooks in {}", from.display()))
        }
    };
    let mut programs = HashMap::new();
    let mut hooks = Vec::new();
    for event in Event::ALL {
        let path = places.folder.join(event.name());
        let mut hook = match Seen::look(&path) {
            Ok(seen) => look(event, &seen, &mut programs),
            Err(HooksError::Refused { reason, .. }) => HookStatus::absent(event, Some(reason)),
            Err(e) => return Err(e),
        };
        if let Some(setting) = &places.elsewhere {
            let there = if setting.is_off {
                HookStatus::absent(event, elsewhere.clone())
            } else {
                pasted(event, &from, &mut programs)
            };
            if there.installed || !hook.installed {
                hook = there;
            } else {
                hook.runs = false;
                hook.why.clone_from(&elsewhere);
            }
        } else if hook.installed && elsewhere.is_some() {
            hook.runs = false;
            hook.why.clone_from(&elsewhere);
        }
        hooks.push(hook);
    }
    let runs = hooks.iter().all(|hook| hook.runs);
    let setting = places.elsewhere.as_ref().filter(|_| !runs);
    Ok(HooksStatus {
        installed: hooks.iter().all(|hook| hook.installed),
        runs,
        folder: places.folder.display().to_string(),
        elsewhere: places.elsewhere.clone(),
        runs_from: from.display().to_string(),
        hooks,
        hints: setting.map_or(Vec::new(), |setting| places.ways_out(setting, program)),
    })
}

/// Looks for the line that was pasted in the file that git runs in another folder, and in the one that husky's own file there
/// (in `_`) runs: that of the folder above.
fn pasted(event: Event, folder: &Path, programs: &mut Programs) -> HookStatus {
    let file = folder.join(event.name());
    let Ok(meta) = fs::metadata(&file) else {
        let why = format!("git looks for {}, which is not there", file.display());
        return HookStatus::absent(event, Some(why));
    };
    if !is_executable(&meta) {
        let why = format!("{} is not executable: git passes over it", file.display());
        return HookStatus::absent(event, Some(why));
    }
    let husky = folder.ends_with("_").then(|| folder.parent()).flatten();
    let also = husky.map(|folder| folder.join(event.name()));
    for file in [Some(&file), also.as_ref()].into_iter().flatten() {
        let Some(program) = fs::read(file).ok().and_then(|text| called_in(event, &text)) else {
            continue;
        };
        let wrong = programs
            .entry(program.clone())
            .or_insert_with(|| not_runnable(&program))
            .clone();
        return HookStatus {
            name: event.name(),
            installed: true,
            runs: wrong.is_none(),
            why: wrong.or_else(|| Some(format!("by a line in {}", file.display()))),
            program: Some(String::from_utf8_lossy(&program).into_owned()),
        };
    }
    let why = format!(
        "git runs {}; whether that calls wiki-sync cannot be told",
        file.display()
    );
    HookStatus::absent(event, Some(why))
}

/// Returns the program of a line that is no comment and calls us at this event.
fn called_in(event: Event, text: &[u8]) -> Option<Vec<u8>> {
    let call = format!(" hook {event}");
    let mut lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    lines.find_map(|line| {
        let is_call = !line.starts_with(b"#") && block::contains(line, call.as_bytes());
        is_call.then(|| block::program_in(line)).flatten()
    })
}

impl HookStatus {
    fn absent(event: Event, why: Option<String>) -> Self {
        Self {
            name: event.name(),
            installed: false,
            runs: false,
            program: None,
            why,
        }
    }
}

/// Why a program cannot be run, by its path; each is tried once.
type Programs = HashMap<Vec<u8>, Option<String>>;

fn look(event: Event, seen: &Seen, programs: &mut Programs) -> HookStatus {
    let Seen::File { text, parted, meta } = seen else {
        return HookStatus::absent(event, None);
    };
    let Some(block) = &parted.block else {
        return HookStatus::absent(event, None);
    };
    let program = block.program.clone().unwrap_or_default();
    let wrong = if !is_executable(meta) {
        Some("the hook is not executable: git passes over it".to_owned())
    } else if !block.first {
        Some("lines above ours may end the hook before".to_owned())
    } else if let Some(missing) = missing_interpreter(text) {
        Some(missing)
    } else {
        programs
            .entry(program.clone())
            .or_insert_with(|| not_runnable(&program))
            .clone()
    };
    let runs = wrong.is_none();
    HookStatus {
        name: event.name(),
        installed: true,
        runs,
        why: wrong.or_else(|| outdated(event, block, &program)),
        program: Some(String::from_utf8_lossy(&program).into_owned()),
    }
}

/// Says so where the lines are not those that this version would write.
fn outdated(event: Event, block: &Block, program: &[u8]) -> Option<String> {
    let lines = block::render(event, program, block.owner);
    (lines.trim_ascii_end() != block.text.trim_ascii_end())
        .then(|| "the lines are another version's; `wiki-sync hooks install` renews them".into())
}

fn missing_interpreter(text: &[u8]) -> Option<String> {
    let line = text.split(|&byte| byte == b'\n').next()?;
    let program = line.strip_prefix(b"#!")?.trim_ascii();
    let program = program.split(u8::is_ascii_whitespace).next()?;
    let path = Path::new(OsStr::from_bytes(program));
    (!path.exists()).then(|| format!("its interpreter {} is not there", path.display()))
}

/// Says why a program is not one of ours that runs, by running it.
fn not_runnable(program: &[u8]) -> Option<String> {
    let path = Path::new(OsStr::from_bytes(program));
    let ran = Command::new(path)
        .arg("--version")
        .stdin(Stdio::null())
        .output();
    match ran {
        Ok(ran) if ran.status.success() && ran.stdout.starts_with(b"wiki-sync ") => None,
        Ok(_) => Some(format!("{} is no wiki-sync that runs", path.display())),
        Err(e) => Some(format!("{} does not start: {e}", path.display())),
    }
}
