-- The outbox: see outbox/sqlite. Times are milliseconds since the epoch.
-- state: 'ready' may be claimed whatever the clock says; 'delayed' once due_at has come; 'held' once
-- due_at has come (never, when it is NULL) or after a release; 'in_flight' is claimed.
-- sha: the content named by whoever enqueued. version: the content last tried. Both empty when unknown.
-- worker: id, process and host of whoever claimed it.
-- due_at of a ready or claimed job is its place in the order: when it became ready.
CREATE TABLE jobs (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    path        TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('ready', 'delayed', 'held', 'in_flight')),
    sha         TEXT NOT NULL,
    repo        TEXT NOT NULL,
    commit_sha  TEXT NOT NULL,
    attempts    INTEGER NOT NULL,
    version     TEXT NOT NULL DEFAULT '',
    recoveries  INTEGER NOT NULL DEFAULT 0,
    reason      TEXT NOT NULL DEFAULT '',
    held_for    TEXT,
    enqueued_at INTEGER NOT NULL,
    due_at      INTEGER,
    token       INTEGER,
    lease_until INTEGER,
    worker      TEXT,
    claimed_at  INTEGER,
    CHECK ((state = 'in_flight') = (token IS NOT NULL)),
    CHECK ((state = 'in_flight') = (lease_until IS NOT NULL)),
    CHECK ((state = 'in_flight') = (worker IS NOT NULL)),
    CHECK ((state = 'in_flight') = (claimed_at IS NOT NULL)),
    CHECK ((state = 'held') = (held_for IS NOT NULL)),
    CHECK (state = 'held' OR due_at IS NOT NULL)
) STRICT;

-- A page waits at most once and is in at most one worker's hands, whatever the code does.
CREATE UNIQUE INDEX jobs_waiting_page ON jobs (path) WHERE state <> 'in_flight';
CREATE UNIQUE INDEX jobs_page_in_flight ON jobs (path) WHERE state = 'in_flight';
-- Each index ends in the rowid: this is the order of claiming.
CREATE INDEX jobs_by_due ON jobs (state, due_at);

-- The last fencing token given out; one row.
CREATE TABLE outbox_token (
    last INTEGER NOT NULL
) STRICT;
INSERT INTO outbox_token (last) VALUES (0);

-- path: NULL for a line that named no page; one letter per page.
CREATE TABLE dead_letters (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    path        TEXT UNIQUE,
    raw         BLOB NOT NULL,
    store       TEXT,
    reason      TEXT NOT NULL,
    attempts    INTEGER NOT NULL,
    version     TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    dead_at     INTEGER NOT NULL
) STRICT;
