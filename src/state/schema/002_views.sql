-- What is made to be read by others. The README's table is the contract, and a test compares the two: a column is never
-- taken away and never means something else; what would need that is a view `…_v2` beside. A migration that changes a
-- table below a view makes the view anew, with the columns it had.

DROP VIEW page_links;
DROP VIEW broken_links;
DROP VIEW orphan_pages;

CREATE VIEW pages_v1 AS
    SELECT path, title, sha, symbol, metadata FROM graph_pages;

CREATE VIEW tags_v1 AS
    SELECT DISTINCT path, tag FROM graph_tags;

CREATE VIEW aliases_v1 AS
    SELECT path, name AS alias FROM graph_names WHERE kind = 'alias';

CREATE VIEW links_v1 AS
    SELECT path AS source, line, kind, target, anchor, label, leads_to, dst AS page, how AS found_by, ambiguous
    FROM graph_links;

CREATE VIEW backlinks_v1 AS
    SELECT dst AS page, path AS source, line, kind, target, anchor, label
    FROM graph_links WHERE dst IS NOT NULL;

CREATE VIEW broken_links_v1 AS
    SELECT path AS source, line, kind, target, anchor, label, wants AS placeholder
    FROM graph_links WHERE leads_to = 'placeholder';

CREATE VIEW orphans_v1 AS
    SELECT path, title FROM graph_pages AS page
    WHERE NOT EXISTS (SELECT 1 FROM graph_links WHERE dst = page.path AND path <> page.path);
