use proptest::prelude::*;

use super::*;
use crate::testing::{RedisServer, outbox_contract};

const NOW: Timestamp = Timestamp(1_795_000_000_000);
const LEASE: Duration = Duration::from_mins(1);

fn settings(url: String) -> RedisSettings {
    RedisSettings {
        url,
        key: "deep-wiki:outbox".into(),
        dead_key: "deep-wiki:outbox:dlq".into(),
        allow_eviction: false,
        owner: Owner {
            id: "checkout".into(),
            host: "here".into(),
            root: "/wiki".into(),
        },
        clock: Clock::Caller,
    }
}

fn outbox(server: &RedisServer) -> RedisOutbox {
    RedisOutbox::open(settings(server.url())).expect("opens")
}

#[test]
fn passes_the_contract() {
    let server = RedisServer::start();
    outbox_contract::run(&mut || {
        server.cli(&["FLUSHALL"]);
        Box::new(outbox(&server))
    });
}

#[test]
fn random_plays_end_as_in_the_model() {
    let server = RedisServer::start();
    proptest!(|(steps in outbox_contract::plays())| {
        server.cli(&["FLUSHALL"]);
        outbox_contract::play(&mut outbox(&server), &steps);
    });
}
