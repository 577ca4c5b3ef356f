-- The graph. Pages are nodes, and so are tags, symbols and placeholders (targets that do not exist yet);
-- links, tags and symbols are edges. `path` is always the page's path in the repository.
--
-- Others read it by the views of 002_views.sql. Written only by stores/graph: whatever
-- is changed by hand shows as drift in `wiki-sync verify`, and `--repair` puts it back.

-- One row per page. `key`: the path in NFC and case folded; two pages with one key are a conflict.
-- `metadata`: the front matter as a JSON object with its types. `symbol`: front matter's `symbol`.
-- `derived_by`: fingerprint of the program's part that made the page's rows.
CREATE TABLE graph_pages (
    path       TEXT PRIMARY KEY NOT NULL,
    key        TEXT NOT NULL,
    title      TEXT NOT NULL,
    sha        TEXT NOT NULL,
    symbol     TEXT,
    metadata   TEXT NOT NULL,
    derived_by TEXT NOT NULL
) WITHOUT ROWID, STRICT;
CREATE INDEX graph_pages_by_key ON graph_pages (key);

-- Every name by which a link can find a page, so that each lookup is one step down an index however many
-- pages share a name.
-- kind 'path': each run of last parts of the path below the wiki's root, without the extension
-- (`a/b/c.md` gives `c`, `b/c` and `a/b/c`); `depth` counts the parts of the whole path, `ext` is the
-- extension in lower case when it is a page's. kind 'alias' and 'title': `depth` 0, `ext` ''.
-- `key`: the name in NFC and case folded. `length`: bytes of the page's path.
CREATE TABLE graph_names (
    path   TEXT NOT NULL,
    kind   TEXT NOT NULL,
    name   TEXT NOT NULL,
    key    TEXT NOT NULL,
    ext    TEXT NOT NULL,
    depth  INTEGER NOT NULL,
    length INTEGER NOT NULL,
    PRIMARY KEY (path, kind, name)
) WITHOUT ROWID, STRICT;
CREATE INDEX graph_names_by_key ON graph_names (kind, key, name, ext, depth, length, path);

-- Tags of a page in the order in which they stand.
CREATE TABLE graph_tags (
    path    TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    tag     TEXT NOT NULL,
    PRIMARY KEY (path, ordinal)
) WITHOUT ROWID, STRICT;
CREATE INDEX graph_tags_by_tag ON graph_tags (tag);

-- Links as written: `kind` wikilink | markdown | embed, `target` without anchor and label, `line` in the
-- file; `wants`: the key of the name that the target asks for, which names the placeholder.
-- Links as resolved: `leads_to` page | placeholder | file (a file that is no page, or outside the wiki);
-- `dst`: the page's path, where it is one; `how` it was found: exact | folder | shortest | site | folded |
-- alias | title; `ambiguous`: 1 when another page was just as good.
CREATE TABLE graph_links (
    path      TEXT NOT NULL,
    ordinal   INTEGER NOT NULL,
    kind      TEXT NOT NULL,
    target    TEXT NOT NULL,
    anchor    TEXT,
    label     TEXT,
    line      INTEGER NOT NULL,
    wants     TEXT NOT NULL,
    leads_to  TEXT NOT NULL,
    dst       TEXT,
    how       TEXT,
    ambiguous INTEGER NOT NULL,
    PRIMARY KEY (path, ordinal)
) WITHOUT ROWID, STRICT;
CREATE INDEX graph_links_by_dst ON graph_links (dst) WHERE dst IS NOT NULL;
CREATE INDEX graph_links_by_placeholder ON graph_links (wants) WHERE leads_to = 'placeholder';
CREATE INDEX graph_links_ambiguous ON graph_links (path, ordinal) WHERE ambiguous <> 0;

-- Which changes concern a link: a page that comes, goes or is renamed looks its names up here, and only
-- the links found are resolved again. See stores/graph/plan.rs for what the keys are.
CREATE TABLE graph_link_keys (
    path    TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    key     TEXT NOT NULL,
    PRIMARY KEY (path, ordinal, key)
) WITHOUT ROWID, STRICT;
CREATE INDEX graph_link_keys_by_key ON graph_link_keys (key);

-- `id`: made at random with the store; `epoch`: raised with each batch.
CREATE TABLE graph_meta (
    key   TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) WITHOUT ROWID, STRICT;

-- Page to page, as resolved.
CREATE VIEW page_links AS
    SELECT path AS source, dst AS target, kind, label, anchor, line, how, ambiguous
    FROM graph_links WHERE dst IS NOT NULL;

-- Links to pages that do not exist.
CREATE VIEW broken_links AS
    SELECT path AS source, target, kind, label, anchor, line, wants AS placeholder
    FROM graph_links WHERE leads_to = 'placeholder';

-- Pages that no other page links to.
CREATE VIEW orphan_pages AS
    SELECT path, title FROM graph_pages AS page
    WHERE NOT EXISTS (SELECT 1 FROM graph_links WHERE dst = page.path AND path <> page.path);

-- All nodes. `node` is unique: pages by path, the others with a prefix.
CREATE VIEW graph_nodes AS
    SELECT path AS node, 'page' AS kind, title AS name FROM graph_pages
    UNION ALL
    SELECT 'placeholder:' || wants, 'placeholder', min(target)
    FROM graph_links WHERE leads_to = 'placeholder' GROUP BY wants
    UNION ALL
    SELECT DISTINCT 'tag:' || tag, 'tag', tag FROM graph_tags
    UNION ALL
    SELECT DISTINCT 'symbol:' || symbol, 'symbol', symbol FROM graph_pages WHERE symbol IS NOT NULL;

-- All edges between nodes.
CREATE VIEW graph_edges AS
    SELECT path AS source, coalesce(dst, 'placeholder:' || wants) AS target, kind, label, anchor
    FROM graph_links WHERE leads_to IN ('page', 'placeholder')
    UNION ALL
    SELECT path, 'tag:' || tag, 'tag', NULL, NULL FROM graph_tags
    UNION ALL
    SELECT path, 'symbol:' || symbol, 'symbol', NULL, NULL FROM graph_pages WHERE symbol IS NOT NULL;
