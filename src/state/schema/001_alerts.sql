-- What a person is told: see engine/alert. Times are milliseconds since the epoch.

-- What goes on and is told once while it does; a row goes when it is over.
-- 'away': a store, or the drain itself, cannot work. 'dead': a dead letter, by its page. 'bounds': the dead
-- letters are too many or too old.
-- version: the content that died. told_at: NULL while it may still pass. trimmed_at: the letter was dropped to
-- keep the bound, which is no end of the incident.
CREATE TABLE incidents (
    kind       TEXT NOT NULL CHECK (kind IN ('away', 'dead', 'bounds')),
    subject    TEXT NOT NULL,
    version    TEXT NOT NULL DEFAULT '',
    opened_at  INTEGER NOT NULL,
    told_at    INTEGER,
    trimmed_at INTEGER,
    PRIMARY KEY (kind, subject)
) WITHOUT ROWID, STRICT;

-- The messages; kept for a day, the last one for good.
CREATE TABLE alerts (
    id    INTEGER PRIMARY KEY AUTOINCREMENT,
    kind  TEXT NOT NULL,
    store TEXT,
    title TEXT NOT NULL,
    text  TEXT NOT NULL,
    count INTEGER NOT NULL,
    at    INTEGER NOT NULL
) STRICT;

-- What is still to be delivered, by channel; a row goes when it was. An attempt is counted, and the next one put
-- off, before anything is sent.
CREATE TABLE deliveries (
    alert    INTEGER NOT NULL REFERENCES alerts (id),
    channel  TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    due_at   INTEGER NOT NULL,
    error    TEXT,
    PRIMARY KEY (alert, channel)
) WITHOUT ROWID, STRICT;
CREATE INDEX deliveries_by_due ON deliveries (channel, due_at);
