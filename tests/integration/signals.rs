//! Told to stop: nothing more is claimed, nothing is lost, no attempt is used.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::wiki::Wiki;

#[test]
fn a_drain_told_to_stop_ends_soon_and_the_next_one_goes_on() {
    let wiki = Wiki::with(&[]);
    for n in 0..60 {
        wiki.write(&format!("wiki-output/p{n}.md"), format!("# Page {n}\n"));
    }
    for signal in ["-INT", "-TERM"] {
        // It has done its work and waits for more when the signal comes.
        let mut child = wiki
            .binary()
            .args(["drain", "--timeout", "60", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        while wiki.json(0, &["status"])["fresh"] != true {
            assert!(Instant::now() < end, "the drain gets there");
        }
        let told = Instant::now();
        let kill = Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status();
        assert!(kill.unwrap().success());
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{signal}");
        assert!(told.elapsed() < Duration::from_secs(10));
        wiki.write("wiki-output/p0.md", format!("# Page after {signal}\n"));
    }
    wiki.drain();
    wiki.assert_in_sync();
}
