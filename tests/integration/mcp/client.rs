//! A client that speaks JSON-RPC in lines with the built binary, as any language's would.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::wiki::Wiki;

/// Longer than any call may take on a machine that is busy.
const LONG: Duration = Duration::from_mins(2);

/// A server with its client's end.
pub(super) struct Client {
    pub(super) server: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    next: u64,
}

impl Client {
    /// Starts a server and shakes hands.
    pub(super) fn start(wiki: &Wiki) -> Self {
        let mut client = Self::silent(wiki);
        let hello = client.ask(
            "initialize",
            &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}),
        );
        assert_eq!(
            hello["result"]["serverInfo"]["name"], "wiki-sync",
            "{hello}"
        );
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    /// Starts a server and says nothing.
    pub(super) fn silent(wiki: &Wiki) -> Self {
        let mut server = wiki
            .binary()
            .arg("mcp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = server.stdin.take();
        let out = BufReader::new(server.stdout.take().unwrap());
        let (said, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let _ = said.send(line);
            }
        });
        Self {
            server,
            stdin,
            lines,
            next: 0,
        }
    }

    pub(super) fn send(&mut self, message: &Value) {
        self.send_line(&message.to_string());
    }

    pub(super) fn send_line(&mut self, line: &str) {
        self.send_bytes(line.as_bytes());
    }

    pub(super) fn send_bytes(&mut self, line: &[u8]) {
        self.send_part(line);
        self.send_part(b"\n");
    }

    /// Sends a line or a part of one, without its end.
    pub(super) fn send_part(&mut self, part: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(part).unwrap();
    }

    /// Closes the server's stdin.
    pub(super) fn end(&mut self) {
        drop(self.stdin.take());
    }

    /// Returns the next message. Every line on stdout is one, and nothing else is there.
    pub(super) fn next(&mut self) -> Value {
        let line = self.lines.recv_timeout(LONG).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"))
    }

    /// Sends a request and returns its number.
    pub(super) fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub(super) fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.request(method, params);
        loop {
            let message = self.next();
            if message["id"] == id {
                return message;
            }
        }
    }

    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool that must answer, and returns the structure.
    #[track_caller]
    pub(super) fn good(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.call(tool, arguments);
        let result = &answer["result"];
        assert_eq!(result["isError"], false, "{tool} {arguments}: {answer}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(!text.is_empty(), "{answer}");
        let freshness = &result["structuredContent"]["freshness"];
        assert!(freshness["note"].is_string(), "{answer}");
        result["structuredContent"].clone()
    }

    /// Calls a tool that must fail as a tool, and returns what it says.
    #[track_caller]
    pub(super) fn bad(&mut self, tool: &str, arguments: &Value) -> String {
        let answer = self.call(tool, arguments);
        let result = &answer["result"];
        assert_eq!(result["isError"], true, "{tool} {arguments}: {answer}");
        assert!(result["structuredContent"].is_null(), "{answer}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Closes the server's stdin and returns its exit code.
    pub(super) fn close(mut self) -> Option<i32> {
        self.end();
        self.server.wait().unwrap().code()
    }

    /// Returns the rest of what it says, once it has ended.
    pub(super) fn signal(mut self, signal: &str) -> (Option<i32>, Vec<String>) {
        let id = self.server.id().to_string();
        let sent = std::process::Command::new("kill")
            .args([signal, &id])
            .status();
        assert!(sent.unwrap().success());
        let code = self.server.wait().unwrap().code();
        (code, self.lines.iter().collect())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
