//! What a line is: a message, nothing, or something wrong that has an answer of its own.

use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, ClientJsonRpcMessage, ClientRequest, ErrorCode, JsonRpcRequest,
};
use rmcp::service::RxJsonRpcMessage;
use serde_json::{Value, json};

use super::LONGEST_LINE;
use super::answer::{SHORT, clip};

/// What is asked of us. The SDK takes a request of one of these with other parameters for one that it does not know.
const KNOWN: [&str; 5] = [
    "initialize",
    "ping",
    "server/discover",
    "tools/list",
    "tools/call",
];

/// What a line is.
pub(super) enum Heard {
    /// A message.
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    /// What nobody waits for an answer to: an empty line, a notification that cannot be used, an answer to nothing.
    Nothing,
    /// Something wrong.
    Wrong(Wrong),
}

/// An answer to what is no message.
#[derive(Debug)]
pub(super) struct Wrong {
    /// Null where it cannot be told: JSON-RPC wants it so, and clients' libraries read no error without it.
    id: Value,
    code: ErrorCode,
    why: String,
}

impl Wrong {
    pub(super) fn too_long() -> Self {
        let why = format!("the message is longer than {LONGEST_LINE} bytes, and was passed over");
        Self::new(Value::Null, ErrorCode::INVALID_REQUEST, why)
    }

    fn new(id: Value, code: ErrorCode, why: impl AsRef<str>) -> Self {
        let why = clip(why.as_ref(), SHORT);
        Self { id, code, why }
    }

    /// Returns the message.
    pub(super) fn line(&self) -> Vec<u8> {
        let (id, code, why) = (&self.id, self.code.0, &self.why);
        let message = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": why}});
        message.to_string().into_bytes()
    }
}

/// Says what a line is.
pub(super) fn heard(line: &[u8]) -> Heard {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
    let line = line.trim_ascii();
    if line.is_empty() {
        return Heard::Nothing;
    }
    let invalid = |id: &Value, why: &str| {
        Heard::Wrong(Wrong::new(id.clone(), ErrorCode::INVALID_REQUEST, why))
    };
    let message: Value = match serde_json::from_slice(line) {
        Ok(message) => message,
        Err(error) => {
            let why = format!("the line is no JSON: {error}");
            return Heard::Wrong(Wrong::new(Value::Null, ErrorCode::PARSE_ERROR, why));
        }
    };
    if message.is_array() {
        let why = "batches are not taken: send each message in a line of its own";
        return invalid(&Value::Null, why);
    }
    if !message.is_object() {
        return invalid(&Value::Null, "a message is an object");
    }
    let (id, method) = (message.get("id"), message.get("method"));
    let is_answer =
        method.is_none() && (message.get("result").is_some() || message.get("error").is_some());
    let read = || serde_json::from_value::<ClientJsonRpcMessage>(message.clone());
    if is_answer || (id.is_none() && method.is_some_and(Value::is_string)) {
        return read().map_or(Heard::Nothing, |message| Heard::Message(Box::new(message)));
    }
    let id = match id {
        Some(id) if id.is_string() || id.is_i64() => id,
        _ => {
            return invalid(
                &Value::Null,
                "the id of a request is text or a whole number",
            );
        }
    };
    let Some(method) = method.and_then(Value::as_str) else {
        return invalid(id, "the method of a request is text");
    };
    match read() {
        Ok(ClientJsonRpcMessage::Request(JsonRpcRequest {
            request: ClientRequest::CustomRequest(_),
            ..
        })) if KNOWN.contains(&method) => {
            let error = match (method, message.get("params").cloned()) {
                (_, None) => Some("there are none".into()),
                ("tools/call", Some(params)) => {
                    let call = serde_json::from_value::<CallToolRequestParams>(params);
                    call.err().map(|error| error.to_string())
                }
                _ => None,
            };
            let error = error.map_or(String::new(), |error| format!(": {error}"));
            let why = format!("the params of {method} are not as they must be{error}");
            Heard::Wrong(Wrong::new(id.clone(), ErrorCode::INVALID_PARAMS, why))
        }
        Ok(message) => Heard::Message(Box::new(message)),
        Err(error) => invalid(id, &format!("the message is no request: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(line: &[u8]) -> Option<Value> {
        match heard(line) {
            Heard::Message(_) => Some(json!("taken")),
            Heard::Nothing => None,
            Heard::Wrong(wrong) => {
                let answer: Value = serde_json::from_slice(&wrong.line()).expect("JSON");
                assert!(answer["error"]["message"].is_string() && answer["jsonrpc"] == "2.0");
                Some(json!([answer["id"], answer["error"]["code"]]))
            }
        }
    }

    #[test]
    fn every_line_that_is_no_message_has_the_error_that_json_rpc_wants() {
        let no_json = Some(json!([null, -32700]));
        let no_request = |id: Value| Some(json!([id, -32600]));
        let bad_params = |id: Value| Some(json!([id, -32602]));
        let taken = Some(json!("taken"));
        let deep = "[".repeat(5_000);
        for (line, says) in [
            (&b"not json {"[..], &no_json),
            (b"\0\x01", &no_json),
            (b"\"\xff\xfe\"", &no_json),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xed\xa0\x80\"}", &no_json),
            (br#"{"jsonrpc":"2.0","id":1,"meth"#, &no_json),
            (br#"{"id":1}{"id":2}"#, &no_json),
            (deep.as_bytes(), &no_json),
            (b"[]", &no_request(Value::Null)),
            (br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, &no_request(Value::Null)),
            (b"7", &no_request(Value::Null)),
            (b"{}", &no_request(Value::Null)),
            (br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, &no_request(Value::Null)),
            (br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, &no_request(Value::Null)),
            (br#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, &no_request(Value::Null)),
            (br#"{"jsonrpc":"1.0","id":"x","method":"ping"}"#, &no_request(json!("x"))),
            (br#"{"id":3,"method":"ping"}"#, &no_request(json!(3))),
            (br#"{"jsonrpc":"2.0","id":"x","method":5}"#, &no_request(json!("x"))),
            (br#"{"jsonrpc":"2.0","id":"x"}"#, &no_request(json!("x"))),
            (br#"{"jsonrpc":"2.0","id":4,"method":"tools/call"}"#, &bad_params(json!(4))),
            (
                br#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"search","arguments":[1]}}"#,
                &bad_params(json!(5)),
            ),
            (
                br#"{"jsonrpc":"2.0","id":"6","method":"tools/call","params":{"name":7}}"#,
                &bad_params(json!("6")),
            ),
            (br#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}"#, &bad_params(json!(7))),
            // Nobody waits for an answer.
            (b"", &None),
            (b" \r", &None),
            (br#"{"jsonrpc":"1.0","method":"ping"}"#, &None),
            (br#"{"jsonrpc":"2.0","id":{},"result":5}"#, &None),
            (br#"{"jsonrpc":"2.0","id":null,"error":5}"#, &None),
            (b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"ping\"}\r", &taken),
            (br#"{"jsonrpc":"2.0","id":9,"method":"no/such"}"#, &taken),
            (br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, &taken),
        ] {
            assert_eq!(&answer(line), says, "{}", String::from_utf8_lossy(line));
        }
    }
}
