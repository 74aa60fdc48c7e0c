-- +goose Up

-- The log of a box without JetStream. With JetStream these stay empty.

-- owner: eventlog
CREATE TABLE eventlog_bucket (
    bucket integer PRIMARY KEY,
    -- The position of the last entry. Whoever adds one holds this row until it is committed, so entries show up in order.
    last   bigint NOT NULL DEFAULT 0,
    -- Another one means another log, whatever the positions are.
    epoch  uuid NOT NULL DEFAULT gen_random_uuid()
) WITH (
    fillfactor = 50
);

-- owner: eventlog
CREATE TABLE eventlog_entry (
    bucket integer NOT NULL,
    seq    bigint NOT NULL,
    -- The publisher's, so that a second try is told from a second entry.
    id     text NOT NULL,
    at     timestamptz NOT NULL DEFAULT now(),
    data   bytea NOT NULL,
    PRIMARY KEY (bucket, seq)
);

CREATE UNIQUE INDEX eventlog_entry_id ON eventlog_entry (bucket, id);

CREATE INDEX eventlog_entry_at ON eventlog_entry (at);
