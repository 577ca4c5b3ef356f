//! `serve` in a real Chromium, by the `WebDriver` protocol: what a person sees and does, while a drain runs. No message on the
//! console, no request to anybody else. Pictures of each page are left in the target folder, to be looked at.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::redis::until;
use crate::serve::Served;
use crate::wiki::Wiki;

const LONG: Duration = Duration::from_mins(2);

/// A Chromium that is driven.
struct Browser {
    driver: Child,
    session: String,
    agent: ureq::Agent,
    pictures: PathBuf,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.agent.delete(&self.session).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

impl Browser {
    fn start() -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver: `scripts/test --long` installs it");
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                let (_, port) = line.split_once("successfully on port ")?;
                Some(port.trim_end_matches('.').to_owned())
            })
            .expect("a port");
        std::thread::spawn(move || lines.for_each(drop));
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(LONG))
            .build()
            .into();
        let args = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--window-size=1280,860",
            // Its own calls home.
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": args},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }}});
        let base = format!("http://127.0.0.1:{port}/session");
        let made = call(agent.post(&base).send(wanted.to_string()));
        let id = made["sessionId"].as_str().expect("a session").to_owned();
        let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("serve");
        fs::create_dir_all(&pictures).unwrap();
        Self {
            session: format!("{base}/{id}"),
            driver,
            agent,
            pictures,
        }
    }

    fn post(&self, what: &str, body: &Value) -> Value {
        let url = format!("{}/{what}", self.session);
        call(self.agent.post(&url).send(body.to_string()))
    }

    fn go(&self, url: &str) {
        self.post("url", &json!({ "url": url }));
    }

    /// Runs a script in the page and returns what it returns.
    fn run(&self, script: &str) -> Value {
        self.post("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until a script's value is true.
    #[track_caller]
    fn until(&self, what: &str) {
        let script = format!("return Boolean({what});");
        let end = Instant::now() + LONG;
        while self.run(&script) != true {
            assert!(
                Instant::now() < end,
                "{what}: {}",
                self.run("return document.body.innerText")
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Types with real keys into whatever has the focus.
    fn keys(&self, text: &str) {
        let actions: Vec<_> = text
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key})))
            .collect();
        let keys = json!({"actions": [{"type": "key", "id": "keys", "actions": actions}]});
        self.post("actions", &keys);
    }

    /// Clicks at a place of an element, from its corner.
    fn click_at(&self, selector: &str, x: f64, y: f64) {
        let corner = self.run(&format!(
            "const r = document.querySelector({selector:?}).getBoundingClientRect(); return [r.left, r.top];"
        ));
        let at = |axis: usize, by: f64| (corner[axis].as_f64().unwrap() + by).round();
        let mouse = json!({"actions": [{"type": "pointer", "id": "mouse", "actions": [
            {"type": "pointerMove", "duration": 0, "x": at(0, x), "y": at(1, y)},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]}]});
        self.post("actions", &mouse);
    }

    fn click(&self, selector: &str) {
        self.until(&format!("document.querySelector({selector:?})"));
        let size = self.run(&format!(
            "const e = document.querySelector({selector:?}); e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect(); return [r.width, r.height];"
        ));
        let half = |axis: usize| size[axis].as_f64().unwrap() / 2.0;
        self.click_at(selector, half(0), half(1));
    }

    fn picture(&self, name: &str) {
        let url = format!("{}/screenshot", self.session);
        let picture = call(self.agent.get(&url).call());
        let bytes = base64::engine::general_purpose::STANDARD.decode(picture.as_str().unwrap());
        fs::write(self.pictures.join(format!("{name}.png")), bytes.unwrap()).unwrap();
    }

    fn devtools(&self, command: &str, params: &Value) {
        self.post(
            "goog/cdp/execute",
            &json!({"cmd": command, "params": params}),
        );
    }

    fn dark(&self, is_dark: bool) {
        let value = if is_dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": value}]);
        self.devtools(
            "Emulation.setEmulatedMedia",
            &json!({ "features": features }),
        );
    }

    fn size(&self, width: u32, height: u32, is_phone: bool) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone});
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
    }

    fn log(&self, kind: &str) -> Vec<Value> {
        let log = self.post("se/log", &json!({ "type": kind }));
        log.as_array().unwrap().clone()
    }

    /// Checks that nothing was said on the console and nobody else was asked, since the last time.
    #[track_caller]
    fn assert_clean(&self, port: u16) {
        let said = self.log("browser");
        assert!(said.is_empty(), "{said:#?}");
        let own = format!("http://127.0.0.1:{port}/");
        let mut asked = 0;
        for entry in self.log("performance") {
            let message: Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
            let message = &message["message"];
            if message["method"] == "Network.requestWillBeSent" {
                let url = message["params"]["request"]["url"].as_str().unwrap();
                assert!(url.starts_with(&own) || url.starts_with("data:"), "{url}");
                asked += 1;
            }
        }
        assert!(asked > 0, "the requests are seen");
    }
}

#[track_caller]
fn call(answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Value {
    let text = answer
        .unwrap()
        .into_body()
        .with_config()
        .limit(64 << 20)
        .read_to_string();
    let answer: Value = serde_json::from_str(&text.unwrap()).unwrap();
    assert!(answer["value"]["error"].is_null(), "{answer}");
    answer["value"].clone()
}

/// A wiki that has something of everything.
fn wiki() -> Wiki {
    let wiki = Wiki::small();
    let topics = [
        "outbox", "graph", "vectors", "git", "watch", "search", "용어", "배포",
    ];
    let mut dice = Dice::of(7);
    for (at, topic) in topics.iter().cycle().take(120).enumerate() {
        let other = |dice: &mut Dice| {
            let n = dice.below(120);
            format!("{}-{n}", topics[n % topics.len()])
        };
        let links = format!("[[{}]] and [[{}]]", other(&mut dice), other(&mut dice));
        let missing = if at % 17 == 0 {
            " [[Not written yet]]"
        } else {
            ""
        };
        let text = format!(
            "---\ntags: [{topic}, page]\n---\n# {topic} {at}\n\nAbout {topic}, number {at}: see {links}.{missing}\n\n## 왜 필요한가\n\n여러 저장소를 결국 일관되게 맞추기 위해서입니다. 한 번에 모두 쓰는 트랜잭션은 없습니다.\n\n## Details\n\n| what | how |\n|---|--:|\n| one | 1 |\n\n```rust\nfn main() {{}}\n```\n"
        );
        wiki.write(&format!("wiki-output/{topic}/{topic}-{at}.md"), text);
    }
    wiki.write("wiki-output/picture.svg", "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 200 80'><script>alert(1)</script><rect width='200' height='80' rx='12' fill='#6aa5b8'/></svg>");
    wiki.git(&["add", "wiki-output/picture.svg"]);
    wiki.git(&["commit", "-qm", "a picture"]);
    wiki.write(
        "wiki-output/evil \"'<b>&%.md",
        "# <script>alert(1)</script> Evil\n\n<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\n\n![far](https://evil.invalid/i.png) <img src=https://evil.invalid/j.png> [x](javascript:alert(1))\n\n<svg onload=alert(1)></svg> ![here](picture.svg) [[a]]\n",
    );
    wiki.write(
        "wiki-output/heads.md",
        "## Same heading\n\ntext\n\n".repeat(10_000),
    );
    let wide = format!(
        "|{}\n|{}\n{}",
        "a|".repeat(300),
        "-|".repeat(300),
        "|b|c|\n".repeat(500)
    );
    wiki.write("wiki-output/table.md", format!("# Table\n\n{wide}"));
    wiki.write("wiki-output/bad.md", b"\xff\xfe");
    wiki
}

#[test]
#[ignore = "a real Chromium, for scripts/test --long"]
fn a_person_sees_finds_clicks_and_mends_while_a_drain_runs() {
    let wiki = wiki();
    wiki.json(3, &["drain"]);
    let served = Served::start(&wiki);
    let browser = Browser::start();
    let own = format!("http://127.0.0.1:{}", served.port);
    let port = served.port;
    browser.dark(false);

    // In by the address that was printed; the token is gone from it.
    browser.go(&served.url);
    browser.until("document.querySelectorAll('.store .ring .dead').length === 3");
    assert_eq!(browser.run("return location.href"), format!("{own}/"));
    browser.picture("overview");
    browser.dark(true);
    browser.picture("overview-dark");
    browser.dark(false);
    browser.assert_clean(port);

    // A drain runs from here on, and the overview shows it by itself.
    for at in 0..300 {
        wiki.write(
            &format!("wiki-output/new/{at}.md"),
            format!("# New {at}\n\nfresh words {at} [[a]]\n"),
        );
    }
    browser.until("document.querySelector('.headline').innerText.includes('Catching up')");
    browser.picture("overview-busy");
    let mut drain = wiki
        .binary()
        .args(["drain", "--quiet"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();

    searches(&browser, port);
    reads(&browser, port, &own);
    follows_the_graph(&browser, port, &own);
    assert!(drain.wait().is_ok());
    mends(&browser, &wiki);
    looks_on_a_phone(&browser, port, &own);
    wiki.assert_in_sync();
}

/// Search as one types, by real keys from anywhere.
fn searches(browser: &Browser, port: u16) {
    browser.keys("gs");
    browser.until("location.pathname === '/search' && document.activeElement.id === 'q'");
    browser.keys("아웃박스 저장소");
    browser.until("document.querySelectorAll('a.hit').length > 0");
    browser.until("document.querySelector('.hits').innerText.includes('sub/c.md')");
    browser.until("!document.querySelector('.hits').hasAttribute('aria-busy')");
    browser.picture("search");
    // Syllables that are being composed search nothing.
    browser.run("window.asked = 0; const was = window.fetch; window.fetch = (...all) => { window.asked += 1; return was(...all); }; const q = document.querySelector('#q'); q.value = '하'; q.dispatchEvent(new InputEvent('input', {bubbles: true, isComposing: true}));");
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(browser.run("return window.asked"), 0);
    browser.run("document.querySelector('#q').dispatchEvent(new CompositionEvent('compositionend', {bubbles: true, data: '하'}));");
    browser.until("window.asked > 0");
    browser.assert_clean(port);
}

/// A page, and the hostile ones.
fn reads(browser: &Browser, port: u16, own: &str) {
    let page = |path: &str| format!("{own}{path}");
    browser.go(&page("/page?path=wiki-output/outbox/outbox-0.md"));
    browser.until("document.querySelector('canvas').dataset.drawn");
    browser.picture("page");
    browser.dark(true);
    browser.picture("page-dark");
    browser.dark(false);
    browser.go(&page("/page?path=wiki-output/evil%20%22'%3Cb%3E%26%25.md"));
    browser.until("document.querySelector('.prose img').naturalWidth > 0");
    assert!(
        !browser
            .run("return document.title")
            .as_str()
            .unwrap()
            .contains("owned")
    );
    browser.picture("page-evil");
    for hostile in ["heads", "table"] {
        browser.go(&page(&format!("/page?path=wiki-output/{hostile}.md")));
        browser.until("document.querySelector('.prose')");
        let wide = browser.run("return document.documentElement.scrollWidth > innerWidth + 1");
        assert_eq!(wide, false, "{hostile} stays within the window");
        browser.picture(hostile);
    }
    browser.assert_clean(port);
}

/// A node of the graph leads to its page.
fn follows_the_graph(browser: &Browser, port: u16, own: &str) {
    let page = |path: &str| format!("{own}{path}");
    browser.keys("gg");
    browser
        .until("location.pathname === '/graph' && document.querySelector('canvas').dataset.drawn");
    browser.until("'done' in document.querySelector('canvas').dataset");
    browser.picture("graph");
    let place = browser.run("return document.querySelector('canvas').nodeAt('wiki-output/a.md')");
    let at = |axis: usize| place[axis].as_f64().unwrap();
    browser.click_at("canvas", at(0), at(1));
    browser.until("location.search.includes('wiki-output%2Fa.md') || location.search.includes('wiki-output/a.md')");
    browser.click(".near figcaption a");
    browser
        .until("location.pathname === '/graph' && document.querySelector('canvas').dataset.drawn");
    browser.picture("graph-near");
    browser.go(&page("/graph"));
    browser.until("document.querySelector('canvas').dataset.drawn");
    browser.dark(true);
    browser.run("document.querySelector('#graph-find').focus()");
    browser.keys("용어");
    browser.until("document.querySelector('.said').innerText.includes('found')");
    browser.picture("graph-dark-found");
    browser.dark(false);
    browser.assert_clean(port);
}

/// A dead letter is put back by a click.
fn mends(browser: &Browser, wiki: &Wiki) {
    browser.keys("\u{e00c}gd");
    browser.until("location.pathname === '/dead'");
    browser.picture("dead");
    wiki.write("wiki-output/bad.md", "# Mended\n");
    browser.click(".letter details.sure summary");
    browser.until("document.querySelector('.letter details.sure').open");
    browser.picture("dead-sure");
    browser.click(".letter form button.main");
    browser.until("location.search === '?retried=1'");
    browser.until("document.querySelector('.empty')");
    browser.picture("dead-none");
    wiki.drain();
    browser.keys("go");
    browser.until("document.querySelector('.headline.good')");
}

/// The help, and phones.
fn looks_on_a_phone(browser: &Browser, port: u16, own: &str) {
    let page = |path: &str| format!("{own}{path}");
    browser.keys("?");
    browser.until("document.querySelector('#keys').open");
    browser.picture("keys");
    browser.size(390, 844, true);
    for (name, path) in [
        ("phone-overview", "/"),
        ("phone-search", "/search?q=outbox"),
        ("phone-page", "/page?path=wiki-output/outbox/outbox-0.md"),
        ("phone-graph", "/graph"),
        ("phone-dead", "/dead"),
    ] {
        browser.go(&page(path));
        browser.until("document.readyState === 'complete'");
        browser.until(
            "!document.querySelector('canvas') || document.querySelector('canvas').dataset.drawn",
        );
        let wide = browser.run("return document.documentElement.scrollWidth > innerWidth + 1");
        assert_eq!(wide, false, "{name} stays within the window");
        if path == "/graph" {
            let field = browser.run("return document.querySelector('#graph-find').offsetWidth");
            assert!(field.as_u64().unwrap() > 200, "{field}");
        }
        browser.picture(name);
    }
    browser.assert_clean(port);
}

#[test]
#[ignore = "14,000 pages in a real Chromium, for scripts/test --long"]
fn the_graph_of_fourteen_thousand_pages_is_seen_at_once_and_stays_usable() {
    let wiki = Wiki::small();
    let mut dice = Dice::of(3);
    for at in 0..14_000 {
        let mut text = format!("# Page {at}\n\n");
        for _ in 0..5 {
            write!(text, "[[p{}]] ", dice.below(at + 1)).unwrap();
        }
        wiki.write(&format!("wiki-output/f{}/p{at}.md", at % 23), text);
    }
    wiki.json(0, &["drain"]);
    let served = Served::start(&wiki);
    let browser = Browser::start();
    browser.go(&served.url);
    browser.until("document.querySelector('.headline.good')");
    let own = format!("http://127.0.0.1:{}", served.port);
    let paint =
        "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null";
    browser.go(&own);
    until(LONG, "a paint", || !browser.run(paint).is_null());
    let overview = browser.run(paint);
    browser.go(&format!("{own}/graph"));
    browser.until("document.querySelector('canvas').dataset.drawn");
    let graph = browser.run("return Number(document.querySelector('canvas').dataset.drawn)");
    browser.picture("graph-14000-first");
    browser.until("'done' in document.querySelector('canvas').dataset");
    browser.picture("graph-14000");
    // A second look starts from what was kept.
    browser.go(&format!("{own}/graph"));
    browser.until("'done' in document.querySelector('canvas').dataset");
    let again = browser.run("return Number(document.querySelector('canvas').dataset.drawn)");
    eprintln!("first paint: overview {overview} ms, graph {graph} ms, again {again} ms");
    browser.run("document.querySelector('canvas').focus()");
    browser.keys("+++");
    browser.picture("graph-14000-near");
    browser.assert_clean(served.port);
}
