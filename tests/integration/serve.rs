//! `serve`: who may ask, what is shown, and what a hostile page or name can do, by real HTTP to the built binary.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::redis::until;
use crate::wiki::Wiki;

const LONG: Duration = Duration::from_mins(1);

/// A running viewer.
pub(crate) struct Served {
    child: Child,
    pub(crate) port: u16,
    /// The address that it printed, which works once.
    pub(crate) url: String,
    cookie: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    /// Returns the value of a header, by its name in small letters.
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            (found.eq_ignore_ascii_case(name)).then_some(value)
        })
    }

    /// Returns what a form of this page must send along.
    fn csrf(&self) -> String {
        let (_, rest) = self
            .body
            .split_once("name=\"csrf\" value=\"")
            .expect("a form");
        rest.split('"').next().unwrap().to_owned()
    }
}

impl Served {
    pub(crate) fn start(wiki: &Wiki) -> Self {
        let mut child = wiki
            .binary()
            .args(["serve", "--no-open", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.as_mut().unwrap();
        // It prints one line; a reader that goes away costs it nothing.
        BufReader::new(out).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).expect("a line of JSON");
        let url = told["url"].as_str().unwrap().to_owned();
        let port = url["http://127.0.0.1:".len()..].split('/').next().unwrap();
        Self {
            port: port.parse().unwrap(),
            child,
            url,
            cookie: String::new(),
        }
    }

    /// Starts it and goes in by its address.
    pub(crate) fn entered(wiki: &Wiki) -> Self {
        let mut served = Self::start(wiki);
        let path = served.url["http://127.0.0.1:".len()..]
            .split_once('/')
            .unwrap()
            .1;
        let answer = served.raw(&format!(
            "GET /{path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n",
            served.port
        ));
        assert_eq!(answer.status, 303, "{answer:?}");
        assert_eq!(answer.header("location"), Some("/"));
        let cookie = answer.header("set-cookie").expect("a cookie");
        for part in ["HttpOnly", "SameSite=Strict"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        let cookie = cookie.split(';').next().unwrap().to_owned();
        served.cookie = cookie;
        served
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// Sends a request's head as it is, and reads what comes until the end.
    fn raw(&self, head: &str) -> Answer {
        self.raw_with(head, "")
    }

    fn raw_with(&self, head: &str, body: &str) -> Answer {
        let mut stream = self.connect();
        let request = format!("{head}Connection: close\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
        Answer {
            status: head[9..12].parse().unwrap(),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    fn head(&self, method: &str, path: &str) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nCookie: {}\r\n",
            self.port, self.cookie
        )
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.raw(&self.head("GET", path))
    }

    fn post(&self, path: &str, origin: Option<&str>, form: &str) -> Answer {
        let mut head = self.head("POST", path);
        if let Some(origin) = origin {
            write!(head, "Origin: {origin}\r\n").unwrap();
        }
        write!(
            head,
            "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n",
            form.len()
        )
        .unwrap();
        self.raw_with(&head, form)
    }

    fn own_origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Opens the stream of the state and returns it after its head.
    pub(crate) fn stream(&self) -> BufReader<TcpStream> {
        let mut stream = self.connect();
        write!(stream, "{}\r\n", self.head("GET", "/events")).unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.contains("200"), "{line}");
        while line.trim() != "" {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
        reader
    }
}

/// Reads a stream until a line holds this.
pub(crate) fn hear(stream: &mut BufReader<TcpStream>, text: &str) {
    let end = Instant::now() + LONG;
    let mut line = String::new();
    while !line.contains(text) {
        assert!(Instant::now() < end, "not heard: {text}");
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended");
    }
}

const ROUTES: &[&str] = &[
    "/",
    "/events",
    "/search?q=x",
    "/search/hits?q=x",
    "/page?path=wiki-output/a.md",
    "/file?path=wiki-output/i.png",
    "/raw?path=wiki-output/a.md",
    "/graph",
    "/graph/data",
    "/graph/positions?key=x",
    "/dead",
    "/assets/app.js",
    "/nothing",
];

#[test]
fn nothing_is_told_without_the_cookie_for_another_host_or_to_another_origin() {
    let wiki = Wiki::small();
    wiki.drain();
    let served = Served::entered(&wiki);
    let Served { port, cookie, .. } = &served;
    for path in ROUTES {
        for head in [
            format!("Host: 127.0.0.1:{port}\r\n"),
            format!("Host: 127.0.0.1:{port}\r\nCookie: wiki-sync-{port}=0\r\n"),
            format!("Host: evil.example\r\nCookie: {cookie}\r\n"),
            format!("Host: evil.example:{port}\r\nCookie: {cookie}\r\n"),
            format!(
                "Host: 127.0.0.1:{port}\r\nCookie: {cookie}\r\nOrigin: http://evil.example\r\n"
            ),
            format!("Host: 127.0.0.1:{port}\r\nCookie: {cookie}\r\nSec-Fetch-Site: same-site\r\n"),
        ] {
            let answer = served.raw(&format!("GET {path} HTTP/1.1\r\n{head}"));
            assert!(
                matches!(answer.status, 403 | 421),
                "{path} {head}: {answer:?}"
            );
            assert!(answer.body.starts_with("refused: "), "{answer:?}");
        }
    }
    // The address of the start works once.
    let path = served.url.split_once(&format!(":{port}")).unwrap().1;
    let again = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n");
    assert_eq!(served.raw(&again).status, 403);
    assert_eq!(served.get("/").status, 200);
}

#[test]
fn every_answer_forbids_what_a_browser_could_load_from_elsewhere() {
    let wiki = Wiki::small();
    wiki.drain();
    let served = Served::entered(&wiki);
    for path in ROUTES.iter().filter(|path| **path != "/events") {
        let answer = served.get(path);
        let policy = answer.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'self'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        // Nothing goes to others; our own forms must be able to say where they come from.
        assert_eq!(answer.header("referrer-policy"), Some("same-origin"));
        assert!(!answer.body.contains(" style=\""), "{path}");
        assert!(!answer.body.contains("<script>"), "{path}");
    }
    let mut reached = std::net::TcpStream::connect(("127.0.0.1", served.port)).is_ok();
    assert!(reached);
    // Only this machine's own address is listened on.
    reached = std::net::TcpStream::connect(("127.0.0.2", served.port)).is_ok();
    assert!(!reached);
}

#[test]
fn a_page_its_links_its_sections_and_its_history_are_shown() {
    let wiki = Wiki::small();
    wiki.write(
        "wiki-output/b.md",
        "# Beta\n\n[[sub/c#없는 곳|there]] [[nowhere]] ![p](i.png) [out](https://x.example/)\n",
    );
    wiki.write("wiki-output/i.png", b"\x89PNG");
    wiki.drain();
    let served = Served::entered(&wiki);
    let page = served.get("/page?path=wiki-output/b.md").body;
    for part in [
        "href=\"/page?path=wiki-output/sub/c.md#h-",
        "<span class=\"broken\">nowhere</span>",
        "<img src=\"/file?path=wiki-output/i.png\"",
        "rel=\"noopener noreferrer nofollow\"",
        "href=\"/page?path=wiki-output/a.md\" title=\"wiki-output/a.md\">Alpha</a>",
        "the graph holds this",
        "the vectors hold this",
        "git holds this",
        "wiki: add 3 pages",
        "As the vector store holds them",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    let picture = served.get("/file?path=wiki-output/i.png");
    assert_eq!(picture.header("content-type"), Some("image/png"));
    wiki.write("wiki-output/b.md", "# Beta\n\nother\n");
    let page = served.get("/page?path=wiki-output/b.md").body;
    assert!(page.contains("the vectors do not have this yet"), "{page}");
    assert!(page.contains("will hold them"), "{page}");
}

#[test]
fn search_finds_as_it_does_on_the_command_line_and_says_what_is_stale() {
    let wiki = Wiki::small();
    wiki.drain();
    let served = Served::entered(&wiki);
    let hits = served
        .get("/search/hits?q=%EC%95%84%EC%9B%83%EB%B0%95%EC%8A%A4")
        .body;
    assert!(hits.contains("/page?path=wiki-output/sub/c.md"), "{hits}");
    assert!(hits.contains("<mark>아웃박스</mark>"), "{hits}");
    assert!(!hits.contains("<html"), "a part of a page: {hits}");
    let none = served
        .get("/search/hits?q=outbox&path=wiki-output/sub")
        .body;
    assert!(none.contains("Nothing found"), "{none}");
    wiki.write("wiki-output/a.md", "# Alpha\n\nchanged\n");
    let stale = served.get("/search?q=outbox").body;
    assert!(stale.contains("changed since it was indexed"), "{stale}");
    assert_eq!(served.get("/search/hits?q=").status, 200);
    let long = format!("/search/hits?q={}", "x".repeat(20_000));
    assert_eq!(served.get(&long).status, 200);
}

#[test]
fn the_history_of_a_page_is_its_own() {
    let wiki = Wiki::small();
    wiki.drain();
    wiki.write("wiki-output/b.md", "# Beta\n\nagain\n");
    wiki.drain();
    let served = Served::entered(&wiki);
    let update = "wiki: update wiki-output/b.md";
    let page = served.get("/page?path=wiki-output/b.md").body;
    let (newer, older) = (page.find(update), page.find("wiki: add 3 pages"));
    assert!(newer.is_some() && newer < older, "newest first: {page}");
    let other = served.get("/page?path=wiki-output/a.md").body;
    assert!(
        !other.contains(update) && other.contains("wiki: add 3 pages"),
        "{other}"
    );
}

#[test]
#[cfg(feature = "edge")]
fn a_search_waits_its_turn_with_the_vectors_not_for_ever_and_says_so() {
    let wiki = Wiki::small();
    wiki.drain();
    let served = Served::entered(&wiki);
    let lock = wiki.root().join(".wiki-sync/vectors.lock");
    let lock = std::fs::File::options().write(true).open(lock).unwrap();
    lock.lock().unwrap();
    let busy = served.get("/search/hits?q=outbox");
    assert_eq!(busy.status, 503, "{busy:?}");
    assert!(
        busy.body.contains("reads or writes the vectors"),
        "{busy:?}"
    );
    // All else is shown meanwhile.
    assert_eq!(served.get("/page?path=wiki-output/a.md").status, 200);
    lock.unlock().unwrap();
    assert_eq!(served.get("/search/hits?q=outbox").status, 200);
}

#[test]
fn a_dead_letter_is_put_back_and_dropped_by_a_form_of_ours_alone() {
    let wiki = Wiki::small();
    wiki.write("wiki-output/bad.md", b"\xff\xfe");
    wiki.write("wiki-output/worse.md", b"\xff\xff");
    wiki.json(3, &["drain"]);
    let served = Served::entered(&wiki);
    let page = served.get("/dead");
    assert!(page.body.contains("is not UTF-8"), "{}", page.body);
    let csrf = page.csrf();
    let list = wiki.json(0, &["dlq", "list"]);
    let ids: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["id"].clone())
        .collect();
    let form = |what: &str, id: &Value, csrf: &str| format!("csrf={csrf}&what={what}&id={id}");
    let own = served.own_origin();
    for (origin, csrf) in [
        (None, csrf.as_str()),
        (Some("null"), &csrf),
        (Some("http://evil.example"), &csrf),
        (Some(own.as_str()), "0"),
        (Some(own.as_str()), ""),
    ] {
        let answer = served.post("/dead/act", origin, &form("drop", &ids[0], csrf));
        assert_eq!(answer.status, 403, "{origin:?} {csrf}: {answer:?}");
    }
    assert_eq!(wiki.json(0, &["dlq", "list"]).as_array().unwrap().len(), 2);
    let answer = served.post("/dead/act", Some(&own), &form("retry", &ids[0], &csrf));
    assert_eq!(answer.status, 303, "{answer:?}");
    assert_eq!(answer.header("location"), Some("/dead?retried=1"));
    assert_eq!(wiki.json(0, &["status"])["outbox"]["waiting"], 1);
    let answer = served.post("/dead/act", Some(&own), &form("drop", &ids[1], &csrf));
    assert_eq!(answer.header("location"), Some("/dead?dropped=1"));
    assert!(served.get("/dead").body.contains("No dead letters"));
    // Neither a form without a letter nor one too large is taken.
    let nothing = format!("csrf={csrf}&what=drop");
    assert_eq!(served.post("/dead/act", Some(&own), &nothing).status, 400);
    let large = format!("csrf={csrf}&what=drop&id=1&x={}", "x".repeat(100_000));
    assert_eq!(served.post("/dead/act", Some(&own), &large).status, 413);
    let wrong = served.get("/dead/act");
    assert_eq!(wrong.status, 405);
    assert_eq!(wrong.header("allow"), Some("POST"));
    assert!(wrong.body.contains("class=\"bar\""), "{wrong:?}");
}

#[test]
fn no_path_leads_out_of_the_wiki_and_no_name_does_harm() {
    let wiki = Wiki::small();
    let names = [
        "wiki-output/\"><script>alert(1)<.md",
        "wiki-output/100%&x=1#y?.md",
        "wiki-output/javascript:alert(1).md",
        "wiki-output/http:/evil.example/x.md",
        "wiki-output/\u{1112}\u{1161}\u{11ab}.md",
    ];
    for name in &names {
        wiki.write(name, format!("# T\n\n[[a]] {}\n", "word ".repeat(9)));
    }
    wiki.write("secret.md", "outside");
    wiki.write("secret.png", "outside");
    std::os::unix::fs::symlink("../secret.png", wiki.root().join("wiki-output/l.png")).unwrap();
    std::os::unix::fs::symlink("../secret.md", wiki.root().join("wiki-output/l.md")).unwrap();
    wiki.drain();
    let served = Served::entered(&wiki);
    for bad in [
        "secret.md",
        "../secret.md",
        "wiki-output/../secret.md",
        "wiki-output/%2e%2e/secret.md",
        "%2Fetc%2Fpasswd",
        "/etc/passwd",
        "wiki-output/l.md",
        "wiki-output/.git/config",
        ".git/config",
        ".wiki-sync/wiki.db",
        "wiki-output/a.md%00.png",
        "wiki-output/a%0Ab.md",
        "wiki-output",
        "",
        "http://evil.example/a.md",
    ] {
        let page = served.get(&format!("/page?path={bad}"));
        assert_eq!(page.status, 404, "{bad}: {}", page.body);
        assert!(!page.body.contains("outside"), "{bad}");
    }
    for bad in [
        "secret.png",
        "wiki-output/../secret.png",
        "wiki-output/l.png",
        "wiki-output/a.md",
        "wiki-output/.hidden.png",
        "../../x.png",
        "/etc/x.png",
    ] {
        assert_eq!(
            served.get(&format!("/file?path={bad}")).status,
            404,
            "{bad}"
        );
    }
    for path in [
        "/assets/..%2Fmod.rs",
        "/assets/../mod.rs",
        "/%2e%2e/",
        "//evil.example/",
    ] {
        assert_eq!(served.get(path).status, 404, "{path}");
    }
    for name in &names {
        let mut path = String::new();
        for byte in name.bytes() {
            write!(path, "%{byte:02X}").unwrap();
        }
        let page = served.get(&format!("/page?path={path}"));
        assert_eq!(page.status, 200, "{name}: {}", page.body);
        assert!(!page.body.contains("<script>alert"), "{name}");
        assert_eq!(
            served.get(&format!("/graph?page={path}")).status,
            200,
            "{name}"
        );
    }
    let list = served.get("/page?path=wiki-output/a.md").body;
    assert!(
        !list.contains("href=\"javascript:") && !list.contains("href=\"http:"),
        "{list}"
    );
}

#[test]
fn a_hostile_page_is_shown_bounded_and_without_its_scripts() {
    let wiki = Wiki::small();
    let evil = "<script>alert(1)</script><img src=x onerror=alert(1)>[x](javascript:alert(1))\n\n<svg onload=alert(1)></svg>\n\n";
    wiki.write("wiki-output/evil.md", evil);
    wiki.write(
        "wiki-output/long.md",
        format!("{evil}{}", "word and word\n\n".repeat(1 << 20)),
    );
    wiki.write("wiki-output/heads.md", "## Same\n\ntext\n\n".repeat(10_000));
    let wide = format!(
        "|{}\n|{}\n{}",
        "a|".repeat(3000),
        "-|".repeat(3000),
        "|\n".repeat(9000)
    );
    wiki.write("wiki-output/table.md", wide);
    let served = Served::entered(&wiki);
    for name in ["evil", "long", "heads", "table"] {
        let page = served.get(&format!("/page?path=wiki-output/{name}.md"));
        assert_eq!(page.status, 200, "{name}");
        assert!(page.body.len() < 16 << 20, "{name}: {}", page.body.len());
        for bad in [
            "alert(1)</script>",
            "onerror",
            "onload",
            "href=\"javascript",
        ] {
            let shown = page.body.split("class=\"prose\"").nth(1).unwrap();
            let prose = shown.split("<aside>").next().unwrap();
            assert!(!prose.contains(bad), "{name}: {bad}");
        }
    }
    // What is no page at all is told as what it is.
    wiki.write("wiki-output/bad.md", b"\xff");
    let bad = served.get("/page?path=wiki-output/bad.md");
    assert_eq!(bad.status, 422);
    assert!(bad.body.contains("href=\"/dead\""), "{}", bad.body);
    // What is cut can be had whole.
    let long = served.get("/page?path=wiki-output/long.md").body;
    assert!(long.contains("href=\"/raw?path=wiki-output/long.md\""));
    let raw = served.get("/raw?path=wiki-output/long.md");
    assert_eq!(raw.body.len(), evil.len() + (15 << 20));
    let how = raw.header("content-disposition").unwrap();
    assert!(how.starts_with("attachment;"), "{how}");
    assert_eq!(served.get("/raw?path=secret.md").status, 404);
}

#[test]
fn a_refused_request_is_told_in_our_words() {
    let wiki = Wiki::small();
    wiki.drain();
    let served = Served::entered(&wiki);
    let own = served.own_origin();
    let no_form = format!(
        "{}Origin: {own}\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n",
        served.head("POST", "/dead/act")
    );
    for (answer, status) in [
        (served.get("/nothing"), 404),
        (served.get("/page"), 400),
        (served.get("/file?path=x"), 404),
        (served.get("/dead?after=x"), 400),
        (served.get("/dead/act"), 405),
        (served.post("/graph", Some(&own), ""), 405),
        (served.post("/dead/act", Some(&own), "x=1"), 422),
        (served.raw_with(&no_form, "x"), 415),
    ] {
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.body.contains("class=\"bar\""), "{answer:?}");
        assert!(answer.body.contains("class=\"notice\""), "{answer:?}");
    }
}

#[test]
fn two_hosts_or_two_origins_are_refused_whatever_their_order() {
    let wiki = Wiki::small();
    wiki.drain();
    let served = Served::entered(&wiki);
    let Served { port, cookie, .. } = &served;
    let own = format!("127.0.0.1:{port}");
    for (line, headers) in [
        (
            "GET / HTTP/1.1",
            format!("Host: {own}\r\nHost: evil.example\r\n"),
        ),
        (
            "GET / HTTP/1.1",
            format!("Host: evil.example\r\nHost: {own}\r\n"),
        ),
        ("GET / HTTP/1.1", format!("Host: {own}\r\nHost: {own}\r\n")),
        ("GET / HTTP/1.1", String::new()),
        ("GET / HTTP/1.0", String::new()),
        (
            "GET http://evil.example/ HTTP/1.1",
            format!("Host: {own}\r\n"),
        ),
        (
            "GET / HTTP/1.1",
            format!("Host: {own}\r\nOrigin: http://{own}\r\nOrigin: http://evil.example\r\n"),
        ),
        (
            "GET / HTTP/1.1",
            format!("Host: {own}\r\nOrigin: http://evil.example\r\nOrigin: http://{own}\r\n"),
        ),
        (
            "GET / HTTP/1.1",
            format!("Host: {own}\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Site: cross-site\r\n"),
        ),
    ] {
        let answer = served.raw(&format!("{line}\r\n{headers}Cookie: {cookie}\r\n"));
        assert!(
            matches!(answer.status, 400 | 403 | 421),
            "{line} {headers}: {answer:?}"
        );
    }
    let good = format!("GET http://{own}/ HTTP/1.1\r\nHost: {own}\r\nCookie: {cookie}\r\n");
    assert_eq!(served.raw(&good).status, 200);
}

#[test]
fn a_connection_that_says_nothing_or_half_of_it_is_closed_and_others_are_served() {
    let wiki = Wiki::small();
    wiki.drain();
    let served = Served::entered(&wiki);
    let form = format!(
        "{}Origin: {}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 50\r\n\r\ncsrf=",
        served.head("POST", "/dead/act"),
        served.own_origin()
    );
    let mut idle = served.connect();
    let mut half = served.connect();
    half.write_all(b"GET / HTTP/1.1\r\nHost: 127").unwrap();
    let mut open = served.connect();
    open.write_all(form.as_bytes()).unwrap();
    // More than there are places for.
    let crowd: Vec<_> = (0..300).map(|_| served.connect()).collect();
    assert_eq!(served.get("/").status, 200, "once the silent ones are gone");
    let mut said = Vec::new();
    for stream in [&mut idle, &mut half] {
        stream.read_to_end(&mut said).unwrap();
    }
    assert!(!String::from_utf8_lossy(&said).contains("200 OK"));
    let mut line = String::new();
    BufReader::new(open).read_line(&mut line).unwrap();
    assert!(line.contains("408"), "{line}");
    drop(crowd);
    // What a browser with many windows has.
    let mut streams: Vec<_> = (0..20).map(|_| served.stream()).collect();
    for stream in &mut streams {
        hear(stream, "in sync");
    }
    assert_eq!(served.get("/").status, 200);
}

#[test]
fn a_state_that_was_taken_away_is_told_as_such_and_nothing_is_made() {
    let wiki = Wiki::small();
    let state = wiki.root().join(".wiki-sync");
    let served = Served::entered(&wiki);
    let none = |path: &str| {
        let answer = served.get(path);
        assert!(!state.exists(), "{path} made one");
        assert!(
            answer.body.contains("wiki-sync drain"),
            "{path}: {answer:?}"
        );
        for good in ["Everything is in sync", "No dead letters"] {
            assert!(!answer.body.contains(good), "{path}: {answer:?}");
        }
    };
    let pages = [
        "/",
        "/search?q=outbox",
        "/graph?page=wiki-output/a.md",
        "/dead",
        "/page?path=wiki-output/a.md",
    ];
    let mut stream = served.stream();
    hear(&mut stream, "There is no state yet");
    for path in pages {
        none(path);
    }
    wiki.drain();
    hear(&mut stream, "Everything is in sync");
    assert_eq!(
        served
            .get("/search/hits?q=outbox")
            .body
            .matches("class=\"hit\"")
            .count(),
        1
    );
    std::fs::remove_dir_all(&state).unwrap();
    hear(&mut stream, "There is no state yet");
    for path in pages {
        none(path);
    }
    // Its text is there to be read.
    let page = served.get("/page?path=wiki-output/a.md").body;
    assert!(page.contains("<h1 lang=\"\">Alpha</h1>"), "{page}");
    assert_eq!(served.get("/graph/data").status, 503);
    let act = served.post(
        "/dead/act",
        Some(&served.own_origin()),
        "csrf=0&what=drop&all=yes",
    );
    assert_eq!(act.status, 403);
    assert!(!state.exists());
    wiki.drain();
    hear(&mut stream, "Everything is in sync");
    wiki.assert_in_sync();
}

#[test]
fn an_edit_that_nobody_announced_is_seen_while_somebody_looks() {
    let wiki = Wiki::small();
    wiki.drain();
    let served = Served::entered(&wiki);
    let mut stream = served.stream();
    hear(&mut stream, "Everything is in sync");
    // Each look is told, also where nothing moved.
    hear(&mut stream, "event: looked");
    wiki.write("wiki-output/a.md", "# Alpha\n\nedited, and no watch runs\n");
    hear(&mut stream, "Catching up");
    let page = served.get("/").body;
    assert!(
        page.contains("Last look at all pages: <time data-at="),
        "{page}"
    );
}

#[test]
fn after_a_watch_was_killed_nothing_is_said_to_be_well() {
    let wiki = Wiki::small();
    wiki.drain();
    let mut watch = wiki
        .binary()
        .args(["watch", "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until(LONG, "a watch", || {
        wiki.json(0, &["status"])["watch"]["running"] == true
    });
    let served = Served::entered(&wiki);
    let mut stream = served.stream();
    hear(&mut stream, "Everything is in sync");
    watch.kill().unwrap();
    watch.wait().unwrap();
    hear(&mut stream, "In sync, and not watched");
    wiki.write("wiki-output/a.md", "# Alpha\n\nedited\n");
    hear(&mut stream, "Catching up");
}

#[test]
fn search_goes_on_beyond_the_first_pages_and_shows_no_markup() {
    let wiki = Wiki::small();
    for at in 0..45 {
        wiki.write(
            &format!("wiki-output/many/{at}.md"),
            format!("# Many {at}\n\nthe **common** `word` [[a|there]]\n"),
        );
    }
    wiki.drain();
    let served = Served::entered(&wiki);
    let hits = |path: &str| {
        let body = served.get(path).body;
        (body.matches("class=\"hit\"").count(), body)
    };
    let (first, body) = hits("/search?q=common");
    assert_eq!(first, 20, "{body}");
    assert!(
        body.contains("href=\"/search?q=common&amp;n=40#hit-21\""),
        "{body}"
    );
    assert!(!body.contains("**") && !body.contains("[["), "{body}");
    assert!(
        body.contains("the <mark>common</mark> word there"),
        "{body}"
    );
    assert_eq!(hits("/search?q=common&n=40").0, 40);
    let (all, body) = hits("/search?q=common&n=60");
    assert_eq!(all, 45);
    assert!(!body.contains("Show more"), "{body}");
}

#[test]
fn a_link_to_a_folder_is_told_and_a_dead_page_once() {
    let wiki = Wiki::small();
    wiki.write("wiki-output/bad.md", b"\xff");
    std::fs::create_dir(wiki.root().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("../elsewhere", wiki.root().join("wiki-output/symdir")).unwrap();
    wiki.json(3, &["drain"]);
    let status = wiki.json(0, &["status"]);
    let skipped = status["skipped"].as_array().unwrap();
    assert_eq!(skipped.len(), 2, "{status}");
    assert_eq!(skipped[1]["path"], "wiki-output/symdir");
    assert_eq!(status["stores"]["graph"]["dead"], 1);
    let served = Served::entered(&wiki);
    let mut stream = served.stream();
    hear(&mut stream, "A person is needed");
    let page = served.get("/").body;
    assert!(page.contains("wiki-output/symdir"), "{page}");
    assert_eq!(page.matches("is not UTF-8").count(), 1, "{page}");
    assert_eq!(page.matches("class=\"dead\"").count(), 3, "{page}");
}

#[test]
fn the_state_streams_to_twenty_who_watch_it_while_a_drain_goes_on() {
    let wiki = Wiki::small();
    wiki.drain();
    wiki.write("wiki-output/b.md", "# Beta\n\nother\n");
    let served = Served::entered(&wiki);
    let mut streams: Vec<_> = (0..20).map(|_| served.stream()).collect();
    for stream in &mut streams {
        hear(stream, "Catching up");
    }
    wiki.drain();
    for stream in &mut streams {
        hear(stream, "Everything is in sync");
    }
    let shown = served.get("/").body;
    assert!(shown.contains("Everything is in sync"), "{shown}");
    wiki.assert_in_sync();
}

#[test]
fn the_graph_is_drawn_and_laid_out_the_same_each_time() {
    let wiki = Wiki::small();
    wiki.drain();
    let served = Served::entered(&wiki);
    let data = |path: &str| -> Value {
        let answer = served.get(path);
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_str(&answer.body).unwrap()
    };
    let final_places = || {
        let mut last = data("/graph/data");
        until(LONG, "a final layout", || {
            last = data("/graph/data");
            last["done"] == true
        });
        last
    };
    let graph = final_places();
    assert_eq!(graph["pages"], 3);
    let ids: Vec<_> = graph["ids"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 4, "the missing page is a node: {ids:?}");
    assert_eq!(graph["folders"], serde_json::json!(["", "sub"]));
    std::fs::remove_file(wiki.root().join(".wiki-sync/layout")).ok();
    let again = Served::entered(&wiki);
    until(LONG, "a final layout", || {
        let other: Value = serde_json::from_str(&again.get("/graph/data").body).unwrap();
        other["done"] == true && other["places"] == graph["places"]
    });
    let near = data("/graph/data?page=wiki-output/b.md&depth=1");
    assert_eq!(near["pages"], 2);
    assert_eq!(near["focus"], 1);
    assert_eq!(served.get("/graph/data?page=nothing").status, 404);
    assert_eq!(served.get("/graph/positions?key=nothing").status, 410);
}

#[test]
fn it_ends_at_once_and_a_port_that_is_taken_is_told() {
    let wiki = Wiki::small();
    wiki.drain();
    let mut served = Served::entered(&wiki);
    let taken = wiki
        .ws(&["serve", "--no-open", "--port", &served.port.to_string()])
        .code(4);
    assert!(
        taken.err.contains("cannot listen on 127.0.0.1"),
        "{}",
        taken.err
    );
    assert!(taken.err.contains("--port"), "{}", taken.err);
    let mut stream = served.stream();
    let id = served.child.id().to_string();
    std::process::Command::new("kill")
        .args(["-INT", &id])
        .status()
        .unwrap();
    until(LONG, "its end", || {
        served.child.try_wait().unwrap().is_some()
    });
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
}
