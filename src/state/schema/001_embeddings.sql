-- Vectors that an embedding provider gave, so that no text is embedded twice: see embed/cache.rs. Can be lost.

-- How they were made. All vectors of one way have as many numbers.
CREATE TABLE embedding_models (
    id          INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE,
    dimension   INTEGER NOT NULL
) STRICT;

-- section: SHA-256 of the text. used: the day, since the epoch, on which it was last of use. vector: 32-bit floats,
-- the low byte first. digest: of all these, so that what was damaged is not believed.
CREATE TABLE embeddings (
    model   INTEGER NOT NULL REFERENCES embedding_models (id),
    section TEXT NOT NULL,
    used    INTEGER NOT NULL,
    vector  BLOB NOT NULL,
    digest  BLOB NOT NULL,
    UNIQUE (model, section)
) STRICT;
CREATE INDEX embeddings_by_use ON embeddings (used);

-- One row: the bytes of all vectors, with about what a row costs beside, so that nobody has to add them up.
CREATE TABLE embeddings_size (
    bytes INTEGER NOT NULL
) STRICT;
INSERT INTO embeddings_size VALUES (0);
CREATE TRIGGER embeddings_put AFTER INSERT ON embeddings BEGIN
    UPDATE embeddings_size SET bytes = bytes + length(NEW.vector) + 200;
END;
CREATE TRIGGER embeddings_replaced AFTER UPDATE OF vector ON embeddings BEGIN
    UPDATE embeddings_size SET bytes = bytes + length(NEW.vector) - length(OLD.vector);
END;
CREATE TRIGGER embeddings_dropped AFTER DELETE ON embeddings BEGIN
    UPDATE embeddings_size SET bytes = bytes - length(OLD.vector) - 200;
END;
