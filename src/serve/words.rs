//! What is said where there is nothing to show: each answer that a person may see has our frame and words.

use axum::extract::Request;
use axum::http::header::{ALLOW, CONTENT_TYPE};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::shell;

/// Addresses that scripts ask, and no person.
const FOR_SCRIPTS: &[&str] = &["/events", "/search/hits", "/graph/", "/assets/"];

/// Puts our words in the place of what the framework says when it refuses a request.
pub(super) async fn ours(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_for_script = FOR_SCRIPTS.iter().any(|start| path.starts_with(start));
    let is_head = request.method() == Method::HEAD;
    let mut answer = next.run(request).await;
    let status = answer.status();
    let is_error = status.is_client_error() || status.is_server_error();
    let kind = answer.headers().get(CONTENT_TYPE);
    let is_page = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    if !is_error || is_page || is_for_script || is_head {
        return answer;
    }
    let (title, text) = told(status);
    let mut page = (status, shell::notice(title, text, None)).into_response();
    if let Some(methods) = answer.headers_mut().remove(ALLOW) {
        page.headers_mut().insert(ALLOW, methods);
    }
    page
}

fn told(status: StatusCode) -> (&'static str, &'static str) {
    match status {
        StatusCode::NOT_FOUND => ("Not found", "There is nothing at this address."),
        StatusCode::METHOD_NOT_ALLOWED => (
            "Not so",
            "This address is not asked in this way: what changes something is sent by a form of these pages, and all else is read.",
        ),
        StatusCode::REQUEST_TIMEOUT => ("Too slow", "The form did not come to its end in time."),
        StatusCode::PAYLOAD_TOO_LARGE => ("Too large", "No form of these pages is so long."),
        StatusCode::UNSUPPORTED_MEDIA_TYPE | StatusCode::UNPROCESSABLE_ENTITY => (
            "Not understood",
            "This is not what a form of these pages sends.",
        ),
        _ if status.is_client_error() => (
            "Not understood",
            "The address lacks something, or holds something that it cannot: such as no path of a page, or a number that is none.",
        ),
        _ => (
            "Failed",
            "The question could not be answered; the reason stands where `wiki-sync serve` was started.",
        ),
    }
}
