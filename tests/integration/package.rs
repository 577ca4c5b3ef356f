//! What a stranger gets: the package, what it says of itself, its man pages, completions and settings.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::wiki::Wiki;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    fs::read_to_string(here().join(name)).unwrap()
}

fn manifest() -> toml::Table {
    read("Cargo.toml").parse().unwrap()
}

/// The build script as a program, and a folder of sources for it to look at.
struct Builder {
    dir: tempfile::TempDir,
}

impl Builder {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let made = Command::new("rustc")
            .args(["--edition", "2024", "-o"])
            .arg(dir.path().join("build"))
            .arg(here().join("build.rs"))
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let builder = Self { dir };
        for folder in ["package/src", "package/hooks", "home"] {
            fs::create_dir_all(builder.dir.path().join(folder)).unwrap();
        }
        for file in ["src/a.rs", "build.rs", "Cargo.toml", "Cargo.lock"] {
            fs::write(builder.package().join(file), "x").unwrap();
        }
        builder
    }

    fn package(&self) -> PathBuf {
        self.dir.path().join("package")
    }

    fn command(&self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(folder)
            .env("HOME", self.dir.path().join("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("CARGO_PKG_VERSION", "1.2.3");
        command
    }

    fn git(&self, folder: &Path, args: &[&str]) -> String {
        let mut git = self.command("git".as_ref(), folder);
        git.args(["-c", "user.name=T", "-c", "user.email=t@example.invalid"]);
        let ran = git.args(args).output().unwrap();
        assert!(ran.status.success(), "{args:?}: {ran:?}");
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    }

    /// The version that a build says, and what it wants to be built again for.
    fn says(&self) -> (String, BTreeSet<String>) {
        // A hook's build looks at its own sources all the same.
        let mut build = self.command(&self.dir.path().join("build"), &self.package());
        let said = build.env("GIT_DIR", "/nowhere").output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let of = |key: &str| {
            let mark = format!("cargo::{key}=");
            let lines = said.lines().filter_map(|line| line.strip_prefix(&*mark));
            lines.map(str::to_owned).collect::<BTreeSet<_>>()
        };
        let version = of("rustc-env=WIKI_SYNC_VERSION").pop_first().unwrap();
        (version, of("rerun-if-changed"))
    }
}

#[test]
fn the_version_names_the_commit_that_was_built_and_never_another_one() {
    let builder = Builder::new();
    let package = builder.package();
    assert_eq!(builder.says().0, "1.2.3", "nothing is known");
    // Unpacked within somebody else's repository.
    builder.git(builder.dir.path(), &["init", "-q"]);
    builder.git(
        builder.dir.path(),
        &["commit", "-qm", "other", "--allow-empty"],
    );
    assert_eq!(builder.says().0, "1.2.3", "the commit is not ours");
    let sha = "0123456789abcdef0123456789abcdef01234567";
    let note = |dirty: &str| {
        let note = format!(
            "{{\n  \"git\": {{\n    \"sha1\": \"{sha}\"{dirty}\n  }},\n  \"path_in_vcs\": \"\"\n}}"
        );
        fs::write(package.join(".cargo_vcs_info.json"), note).unwrap();
    };
    note("");
    assert_eq!(builder.says().0, "1.2.3 (0123456789)", "a package");
    note(",\n    \"dirty\": true");
    assert_eq!(builder.says().0, "1.2.3 (0123456789, changed)");
    fs::write(package.join(".cargo_vcs_info.json"), "{}").unwrap();
    assert_eq!(builder.says().0, "1.2.3");
    // A repository of ours without a commit, with one, and with one more.
    builder.git(&package, &["init", "-q"]);
    assert_eq!(builder.says().0, "1.2.3");
    let commit = |message: &str| {
        builder.git(&package, &["add", "."]);
        builder.git(&package, &["commit", "-qm", message, "--allow-empty"]);
        builder.git(
            &package,
            &[
                "show",
                "-s",
                "--abbrev=10",
                "--format=1.2.3 (%h %cs)",
                "HEAD",
            ],
        )
    };
    let first = commit("one");
    assert_eq!(builder.says().0, first);
    assert_ne!(commit("two"), first);
    let (second, looks) = builder.says();
    assert_ne!(second, first);
    for place in &looks {
        assert!(
            package.join(place).exists(),
            "{place}: cargo would build anew each time"
        );
    }
    assert!(
        looks.contains(".git/HEAD") && looks.contains(".git/logs/HEAD") && looks.contains("src")
    );
    fs::write(package.join("src/a.rs"), "y").unwrap();
    assert_eq!(builder.says().0, second.replace(')', ", changed)"));
    fs::write(package.join("src/a.rs"), "x").unwrap();
    fs::write(package.join("notes"), "beside the sources").unwrap();
    assert_eq!(builder.says().0, second);
    fs::write(package.join("src/new.rs"), "z").unwrap();
    assert!(
        builder.says().0.ends_with(", changed)"),
        "a file that was not added"
    );
    fs::remove_file(package.join("src/new.rs")).unwrap();
    // Without a log of HEAD the branches are looked at.
    fs::remove_file(package.join(".git/logs/HEAD")).unwrap();
    let looks = builder.says().1;
    assert!(
        looks.contains(".git/refs/heads") && !looks.contains(".git/logs/HEAD"),
        "{looks:?}"
    );
}

#[test]
fn the_binary_says_its_version_wherever_it_is_asked() {
    let wiki = Wiki::bare_folder();
    let version = wiki.ws(&["--version"]).code(0).out;
    let number = env!("CARGO_PKG_VERSION");
    assert!(
        version.starts_with(&format!("wiki-sync {number}")),
        "{version}"
    );
    assert_eq!(wiki.ws(&["-V"]).code(0).out, version);
}

/// The commands that the help of a command lists.
fn commands(wiki: &Wiki, of: &[&str]) -> Vec<String> {
    let help = wiki.ws(&[of, &["--help"]].concat()).code(0).out;
    let Some((_, list)) = help.split_once("\nCommands:\n") else {
        return Vec::new();
    };
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| {
        let name = line.strip_prefix("  ")?;
        (!name.starts_with(' ')).then(|| name.split(' ').next().unwrap().to_owned())
    });
    names.filter(|name| name != "help").collect()
}

#[test]
fn each_command_has_a_man_page_that_says_what_it_does() {
    let wiki = Wiki::bare_folder();
    let mut names = vec!["wiki-sync".to_owned()];
    for name in commands(&wiki, &[]) {
        names.push(format!("wiki-sync-{name}"));
        let below = commands(&wiki, &[&name]);
        names.extend(
            below
                .iter()
                .map(|below| format!("wiki-sync-{name}-{below}")),
        );
    }
    assert!(
        names.contains(&"wiki-sync-graph-backlinks".into()),
        "{names:?}"
    );
    wiki.ws(&["man", "share/man/man1"]).code(0);
    // Again, over what is there.
    let told = wiki.json(0, &["man", "share/man/man1"]);
    let folder = wiki.root().join("share/man/man1");
    let mut written: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(told.as_array().unwrap().len(), written.len());
    written.sort();
    let mut wanted: Vec<_> = names.iter().map(|name| format!("{name}.1")).collect();
    wanted.sort();
    assert_eq!(written, wanted);
    for name in &names {
        let page = fs::read_to_string(folder.join(format!("{name}.1"))).unwrap();
        let said = page.split_once("\n.SH NAME\n").unwrap().1;
        let said = said.lines().next().unwrap().replace('\\', "");
        let about = said.strip_prefix(&format!("{name} - "));
        assert!(
            about.is_some_and(|about| about.len() > 10),
            "{name}: {said}"
        );
        let version = env!("CARGO_PKG_VERSION");
        assert!(
            page.contains(&format!("\"wiki-sync {version}")),
            "{name}: {page:.300}"
        );
        // Each option and argument says something too.
        let options = page
            .split_once("\n.SH OPTIONS\n")
            .map_or("", |(_, rest)| rest);
        let options = options.split("\n.SH ").next().unwrap();
        for option in options.split(".TP\n").skip(1) {
            assert!(option.trim_end().lines().count() >= 2, "{name}: {option}");
        }
    }
    let taken = wiki.root().join("taken");
    fs::write(&taken, "").unwrap();
    let wrong = wiki.ws(&["man", "taken"]).code(1);
    assert!(
        wrong.err.starts_with("error: cannot write to "),
        "{}",
        wrong.err
    );
}

#[test]
fn completions_are_there_for_the_shells_of_the_readme() {
    let wiki = Wiki::bare_folder();
    for shell in ["bash", "zsh", "fish"] {
        let script = wiki.ws(&["completions", shell]).code(0).out;
        for word in ["backlinks", "verbose", "man"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn bash_completes_behind_every_command() {
    let wiki = Wiki::bare_folder();
    let script = wiki.root().join("completions.bash");
    fs::write(&script, wiki.ws(&["completions", "bash"]).code(0).out).unwrap();
    // What bash would offer for this line, whose last word is the one that is typed.
    let offered = |line: &[&str]| -> Option<BTreeSet<String>> {
        let asked = r#". "$0"; COMP_WORDS=(wiki-sync "$@"); COMP_CWORD=$#
            _wiki__sync wiki-sync "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
            [ ${#COMPREPLY[@]} = 0 ] || printf '%s\n' "${COMPREPLY[@]}""#;
        let mut bash = Command::new("bash");
        let bash = bash.args(["--norc", "-c", asked]).arg(&script).args(line);
        let Ok(told) = bash.current_dir(wiki.root()).output() else {
            eprintln!("NOT SHOWN: there is no bash here");
            return None;
        };
        let (out, err) = (told.stdout, String::from_utf8(told.stderr).unwrap());
        assert!(told.status.success() && err.is_empty(), "{line:?}: {err}");
        let lines = String::from_utf8(out).unwrap();
        Some(lines.lines().map(str::to_owned).collect())
    };
    let words = |line: &[&str]| {
        let offered = offered(line)?;
        let words = offered.into_iter().filter(|word| !word.starts_with('-'));
        Some(words.filter(|word| word != "help").collect::<Vec<_>>())
    };
    // Every command's own, as its help has them.
    let mut all = commands(&wiki, &[]);
    all.sort();
    assert!(
        words(&[""]).is_none_or(|told| told == all),
        "{:?}",
        words(&[""])
    );
    for of in &all {
        let mut below = commands(&wiki, &[of]);
        below.sort();
        if !below.is_empty() && !["rebuild"].contains(&of.as_str()) {
            assert!(words(&[of, ""]).is_none_or(|told| told == below), "{of}");
        }
        let options = offered(&[of, "--js"]);
        assert!(options.is_none_or(|told| told.contains("--json")), "{of}");
        for command in &below {
            let options = offered(&[of, command, "--js"]);
            assert!(
                options.is_none_or(|told| told.contains("--json")),
                "{of} {command}"
            );
        }
    }
    for (line, wanted) in [
        (&["dlq", "r"][..], &["retry"][..]),
        (&["search", "--t"], &["--tag"]),
        (&["verify", "--store", ""], &["git", "graph", "vectors"]),
        (
            &["graph", "export", "--format", ""],
            &["dot", "graphml", "json"],
        ),
        (&["rebuild", "v"], &["vectors"]),
        (&["hook"], &["hooks"]),
    ] {
        if let Some(told) = offered(line) {
            assert_eq!(told.into_iter().collect::<Vec<_>>(), wanted, "{line:?}");
        }
    }
}

#[test]
fn completions_offer_nothing_that_is_hidden() {
    let wiki = Wiki::bare_folder();
    for shell in ["bash", "zsh", "fish"] {
        let script = wiki.ws(&["completions", shell]).code(0).out;
        assert!(script.contains("hooks"), "{shell}");
        let is_hook = |word: &str| word == "hook";
        let mut words = script.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_');
        // In a text it may stand, as in "the hook's name".
        assert!(!script.contains("called by the installed hooks"), "{shell}");
        assert!(shell == "fish" || !words.any(is_hook), "{shell}");
    }
}

#[test]
fn the_settings_that_init_writes_down_are_good_and_are_the_defaults() {
    let wiki = Wiki::small();
    let defaults = wiki.json(0, &["config"]);
    wiki.ws(&["init"]).code(0);
    let file = wiki.root().join("wiki-sync.toml");
    let text = fs::read_to_string(&file).unwrap();
    let settings = defaults.as_array().unwrap();
    // A setting's line holds its name; what it means stands above it.
    let mut stated = 0;
    let mut bare = String::new();
    for line in text.lines() {
        let code = line.strip_prefix("# ").filter(|code| {
            let names = settings
                .iter()
                .map(|setting| setting["key"].as_str().unwrap());
            let mut names = names.map(|key| key.rsplit('.').next().unwrap());
            names.any(|name| code.starts_with(&format!("{name} = ")))
        });
        stated += usize::from(code.is_some());
        bare += code.unwrap_or(line);
        bare.push('\n');
    }
    assert_eq!(stated, settings.len());
    fs::write(&file, bare).unwrap();
    let ran = wiki.ws(&["config", "--json"]).code(0);
    assert_eq!(ran.err, "");
    for (read, default) in ran.json().as_array().unwrap().iter().zip(settings) {
        assert_eq!(
            (&read["key"], &read["value"]),
            (&default["key"], &default["value"])
        );
        let origin = read["origin"].as_str().unwrap();
        let line: usize = origin
            .strip_prefix("wiki-sync.toml:")
            .unwrap()
            .parse()
            .unwrap();
        let name = read["key"].as_str().unwrap().rsplit('.').next().unwrap();
        let told = text.lines().nth(line - 1).unwrap();
        assert!(
            told.starts_with(&format!("# {name} = ")),
            "{origin}: {told}"
        );
    }
}

#[test]
fn a_setting_that_is_almost_one_is_warned_about_with_the_one_that_was_meant() {
    let mut wiki = Wiki::small();
    wiki.write("wiki-sync.toml", "\n[git]\ncomit = \"off\"\n");
    wiki.env
        .insert("WIKI_SYNC_OUTBOX_ULR".into(), "sqlite:".into());
    let ran = wiki.ws(&["config"]).code(0);
    assert_eq!(
        ran.err,
        "warning: wiki-sync.toml:3: git.comit is no setting; did you mean git.commit?\n\
         warning: environment variable WIKI_SYNC_OUTBOX_ULR is no setting; did you mean WIKI_SYNC_OUTBOX_URL?\n"
    );
    let wrong = wiki.ws(&["drain", "--set", "log.levle=info"]).code(2);
    assert!(
        wrong.err.contains("did you mean log.level?"),
        "{}",
        wrong.err
    );
}

#[test]
fn the_package_holds_what_it_is_built_and_taken_over_from_and_nothing_else() {
    let list = Command::new(env!("CARGO"))
        .args(["package", "--list", "--allow-dirty", "--offline", "--quiet"])
        .current_dir(here())
        .output()
        .unwrap();
    assert!(list.status.success(), "{list:?}");
    let list = String::from_utf8(list.stdout).unwrap();
    let tops: BTreeSet<_> = list
        .lines()
        .map(|file| file.split_once('/').map_or(file, |(top, _)| top))
        // Where the sources are no repository, there is none to name.
        .filter(|top| *top != ".cargo_vcs_info.json")
        .collect();
    let wanted = [
        ".config",
        "CHANGELOG.md",
        "Cargo.lock",
        "Cargo.toml",
        "Cargo.toml.orig",
        "LICENSE",
        "README.md",
        "benches",
        "build.rs",
        "clippy.toml",
        "deny.toml",
        "hooks",
        "rustfmt.toml",
        "scripts",
        "src",
        "tests",
    ];
    assert_eq!(tops, BTreeSet::from(wanted));
    for junk in ["__pycache__", "proptest-regressions", ".orig/", ".rej", "~"] {
        assert!(!list.contains(junk), "{junk}");
    }
}

#[test]
fn the_toolchain_that_is_needed_is_one_wherever_it_is_said() {
    let manifest = manifest();
    let version = manifest["package"]["rust-version"].as_str().unwrap();
    let readme = read("README.md");
    assert!(
        readme.contains(&format!("Rust {version}")),
        "README.md must say Rust {version}"
    );
    assert_eq!(
        manifest["lints"]["clippy"]["incompatible_msrv"].as_str(),
        Some("warn"),
        "the gate denies warnings"
    );
    let number = manifest["package"]["version"].as_str().unwrap();
    let changes = read("CHANGELOG.md");
    let first = changes.lines().filter(|line| line.starts_with("## ["));
    let first: Vec<_> = first.take(2).collect();
    assert_eq!(first[0], "## [Unreleased]");
    assert!(first[1].starts_with(&format!("## [{number}]")), "{first:?}");
}

#[test]
fn each_dependency_has_its_reason_and_each_feature_its_line_in_the_readme() {
    let manifest = manifest();
    let readme = read("README.md");
    let section = |title: &str| {
        let (_, rest) = readme
            .split_once(title)
            .unwrap_or_else(|| panic!("{title}"));
        rest.split("\n#").next().unwrap().to_owned()
    };
    let reasons = section("### Dependencies\n");
    for table in ["dependencies", "dev-dependencies"] {
        for name in manifest[table].as_table().unwrap().keys() {
            assert!(
                reasons.contains(&format!("`{name}`")),
                "{name} has no reason"
            );
        }
    }
    let features = section("### Features\n");
    for name in manifest["features"].as_table().unwrap().keys() {
        assert!(
            name == "default" || features.contains(&format!("| `{name}` |")),
            "{name} has no line"
        );
    }
}
