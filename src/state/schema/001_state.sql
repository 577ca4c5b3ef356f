-- What was seen of each file, so that the stat-walk hashes only on doubt.
-- Times are nanoseconds since the epoch. `seen_at` is the clock before the file was read: an entry whose
-- times are not safely older than that proves nothing (the racily-clean case).
CREATE TABLE files (
    path     TEXT PRIMARY KEY NOT NULL,
    size     INTEGER NOT NULL,
    mtime    INTEGER NOT NULL,
    ctime    INTEGER NOT NULL,
    inode    INTEGER NOT NULL,
    seen_at  INTEGER NOT NULL,
    sha      TEXT NOT NULL
) WITHOUT ROWID, STRICT;

-- What was applied to each store. `sha` NULL: voided, the store may hold anything of this page.
-- `mark`: what the store itself says it holds (git: the blob), where it has a witness.
CREATE TABLE receipts (
    path        TEXT NOT NULL,
    store       TEXT NOT NULL,
    sha         TEXT,
    fingerprint TEXT NOT NULL DEFAULT '',
    mark        TEXT,
    PRIMARY KEY (path, store)
) WITHOUT ROWID, STRICT;

-- Which store the receipts speak of. `pending` is the epoch of a batch that was begun and may not have ended.
CREATE TABLE store_epochs (
    store   TEXT PRIMARY KEY NOT NULL,
    id      TEXT NOT NULL,
    epoch   INTEGER NOT NULL,
    pending INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

-- The labels of the last job that carried any.
CREATE TABLE labels (
    path       TEXT PRIMARY KEY NOT NULL,
    repo       TEXT NOT NULL,
    commit_sha TEXT NOT NULL
) WITHOUT ROWID, STRICT;

-- Workers that died under a page's mark (`.wiki-sync/working`) with this content.
CREATE TABLE working (
    path    TEXT PRIMARY KEY NOT NULL,
    version TEXT NOT NULL,
    deaths  INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

CREATE TABLE meta (
    key   TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) WITHOUT ROWID, STRICT;
