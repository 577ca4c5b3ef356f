//! Commits of those who sign theirs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::fixture::Repo;
use crate::model::FailureKind;
use crate::stores::Store as _;
use crate::stores::git::GitSettings;

/// Makes a key for ssh and tells git to sign with it; returns the key's path.
fn with_ssh_key(repo: &Repo, passphrase: &str) -> PathBuf {
    let key = repo.root.join("../key");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-C", "", "-N", passphrase, "-f"])
        .arg(&key)
        .status();
    assert!(made.expect("ssh-keygen runs").success());
    let public = key.with_extension("pub");
    let signers = key.with_extension("signers");
    let text = fs::read_to_string(&public).expect("a key");
    fs::write(&signers, format!("someone@example.com {text}")).expect("written");
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    repo.set("gpg.format", "ssh");
    repo.set("user.signingKey", &text(&public));
    repo.set("gpg.ssh.allowedSignersFile", &text(&signers));
    repo.set("commit.gpgsign", "true");
    key
}

/// Asserts that the page cannot be committed, and that nothing has moved.
#[track_caller]
fn is_refused(repo: &Repo, reason: &str) {
    let index = fs::read(repo.root.join(".git/index")).expect("an index");
    repo.write("wiki-output/a.md", "# A, unsigned\n");
    let failure = repo.fails("wiki-output/a.md", FailureKind::Refused);
    assert!(
        failure.reason.contains("cannot sign the commit"),
        "{failure}"
    );
    assert!(failure.reason.contains(reason), "{failure}");
    assert!(
        failure
            .hint
            .is_some_and(|hint| hint.contains("commit.gpgsign false"))
    );
    assert_eq!(
        fs::read(repo.root.join(".git/index")).expect("an index"),
        index
    );
    assert!(!repo.lock().exists());
}

#[test]
fn a_commit_is_signed_with_the_users_ssh_key() {
    for unborn in [false, true] {
        let repo = if unborn {
            Repo::empty()
        } else {
            Repo::with_pages()
        };
        with_ssh_key(&repo, "");
        repo.write("wiki-output/새 페이지.md", "# 하나\n");
        repo.commits("wiki-output/새 페이지.md");
        repo.git(&["verify-commit", "HEAD"]);
        assert_eq!(
            repo.git(&["log", "-1", "--format=%an %ae|%cn %ce|%G?|%B"])
                .trim_end(),
            "Someone someone@example.com|Someone someone@example.com|G|wiki: add wiki-output/새 페이지.md"
        );
        assert_eq!(
            repo.git(&["log", "-1", "--format=%at"]),
            repo.git(&["log", "-1", "--format=%ct"])
        );
        assert_eq!(repo.changed_by_head(), ["A wiki-output/새 페이지.md"]);
        assert_eq!(repo.status(), [""; 0]);
        repo.is_sound();
    }
}

#[test]
fn without_a_signature_nothing_is_committed() {
    let repo = Repo::with_pages();
    with_ssh_key(&repo, "");
    repo.set("gpg.ssh.program", "false");
    is_refused(&repo, "");
    repo.set("gpg.ssh.program", "no-such-program-anywhere");
    is_refused(&repo, "no-such-program");
    // Its word that it signed is not enough.
    repo.set("gpg.format", "openpgp");
    let lies = "cat > /dev/null; echo '[GNUPG:] SIG_CREATED ' >&2\n";
    repo.set("gpg.program", &repo.program("lies", lies));
    is_refused(&repo, "without a signature");
}

#[test]
fn a_signing_program_that_says_nothing_is_told_with_its_end() {
    let repo = Repo::with_pages();
    with_ssh_key(&repo, "");
    repo.set("gpg.ssh.program", "false");
    is_refused(&repo, "gave no reason (git ended with exit status: 1)");
}

#[test]
fn a_passphrase_that_no_agent_knows_is_asked_for_by_nobody() {
    let repo = Repo::with_pages();
    with_ssh_key(&repo, "a secret of five words");
    is_refused(&repo, "");
}

#[test]
fn a_signing_program_that_hangs_is_ended() {
    let repo = Repo::with_pages();
    with_ssh_key(&repo, "");
    repo.set(
        "gpg.ssh.program",
        &repo.program("hangs", "exec sleep 1000\n"),
    );
    repo.write("wiki-output/a.md", "# A, second\n");
    let mut store = repo.store_with(GitSettings {
        program_wait: Duration::from_secs(2),
        ..GitSettings::default()
    });
    let head = repo.head();
    let failure = store
        .apply(&[repo.put("wiki-output/a.md")], 1)
        .expect_err("held");
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(failure.reason.contains("ended after 2 s"), "{failure}");
    assert_eq!(repo.head(), head);
}

#[test]
fn a_signature_of_gpgs_covers_the_commit() {
    let repo = Repo::with_pages();
    repo.set("commit.gpgsign", "true");
    repo.set("user.signingKey", "someone");
    let payload = repo.root.join("../payload");
    let signs = format!(
        r#"case "$*" in "--status-fd=2 -bsau someone") ;; *) exit 3 ;; esac
cat > {}
echo '[GNUPG:] SIG_CREATED ' >&2
printf -- '-----BEGIN PGP SIGNATURE-----\n\nc2lnbmVk\n-----END PGP SIGNATURE-----\n'
"#,
        payload.display()
    );
    repo.set("gpg.program", &repo.program("gpg", &signs));
    repo.write("wiki-output/a.md", "# A, second\n");
    repo.commits("wiki-output/a.md");
    let commit = repo.git(&["cat-file", "commit", "HEAD"]);
    let signature =
        "gpgsig -----BEGIN PGP SIGNATURE-----\n \n c2lnbmVk\n -----END PGP SIGNATURE-----\n";
    assert!(commit.contains(signature), "{commit}");
    let signed = fs::read_to_string(payload).expect("it was asked");
    assert_eq!(commit.replace(signature, ""), signed);
    repo.is_sound();
}

#[test]
fn a_commit_is_signed_by_gpg_itself_where_there_is_one() {
    let has_gpg = Command::new("gpg").arg("--version").output();
    if !has_gpg.is_ok_and(|ran| ran.status.success()) {
        return; // the test above has a stricter one
    }
    let repo = Repo::with_pages();
    // Short: the agent's socket lies in it.
    let home = tempfile::Builder::new()
        .prefix("gpg")
        .tempdir()
        .expect("a folder");
    let run = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.arg("--homedir").arg(home.path()).args(args);
        command.output().expect("it runs")
    };
    let args = [
        "--batch",
        "--passphrase",
        "",
        "--quick-gen-key",
        "someone@example.com",
    ];
    let made = run("gpg", &args);
    assert!(made.status.success(), "{made:?}");
    let wrapper = format!("exec gpg --homedir '{}' \"$@\"\n", home.path().display());
    repo.set("gpg.program", &repo.program("gpg", &wrapper));
    repo.set("user.signingKey", "someone@example.com");
    repo.set("commit.gpgsign", "true");
    repo.write("wiki-output/a.md", "# A, second\n");
    let outcome = repo.apply_one("wiki-output/a.md");
    let verified = repo.try_git(&["verify-commit", "HEAD"]);
    run("gpgconf", &["--kill", "all"]);
    assert!(outcome.is_ok(), "{outcome:?}");
    assert!(verified);
}

#[test]
fn what_only_git_reads_of_its_configuration_is_heeded() {
    let repo = Repo::with_pages();
    with_ssh_key(&repo, "");
    repo.set("commit.gpgsign", "false");
    // libgit2 knows no such includes.
    let work = repo.root.join("../work");
    fs::write(
        &work,
        "[commit]\ngpgsign = true\n[author]\nemail = someone@work.example\n",
    )
    .expect("written");
    repo.set("remote.origin.url", "https://work.example/wiki");
    repo.set(
        "includeIf.hasconfig:remote.*.url:https://work.example/**.path",
        work.to_str().expect("UTF-8"),
    );
    repo.write("wiki-output/a.md", "# A, second\n");
    repo.commits("wiki-output/a.md");
    repo.git(&["verify-commit", "HEAD"]);
    assert_eq!(
        repo.git(&["log", "-1", "--format=%ae"]),
        "someone@work.example\n"
    );
}
