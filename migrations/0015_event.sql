-- +goose Up
-- Before the first release.
-- squawk-ignore-file require-concurrent-index-creation

-- owner: event
-- Every durable event, as it is sent: body is the envelope's final bytes. A partition per day (UTC), which the workers make ahead and
-- drop when nobody may read it any more.
CREATE TABLE event (
    at          timestamptz NOT NULL,
    seq         bigint NOT NULL,
    -- The transaction that stored it. A reader of an org's events goes by it, and reads no further than where all transactions have
    -- ended: one that commits late is never passed over.
    tx          bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    org_id      text NOT NULL,
    -- The account's id, or the org's for an event of the org itself. Each has a sequence without holes.
    source      text NOT NULL,
    id          text NOT NULL,
    kind        text NOT NULL,
    -- What tells a repeated frame of the platform's; empty for events of our own.
    upstream_id text NOT NULL,
    body        bytea NOT NULL,
    PRIMARY KEY (source, seq, at)
) PARTITION BY RANGE (
    at
);

-- The body is sent as it is read: it is not worth compressing below a page, and never to be looked into.
ALTER TABLE event ALTER COLUMN body SET COMPRESSION lz4;

CREATE INDEX event_org ON event (org_id, tx);

-- owner: event
-- Where each source stands. One row per account, changed with every batch that touches it, so nothing that changes is indexed.
CREATE TABLE event_source (
    org_id    text NOT NULL REFERENCES org (id),
    source    text NOT NULL,
    bucket    smallint NOT NULL,
    last_seq  bigint NOT NULL,
    last_at   timestamptz NOT NULL,
    -- Up to where the platform's frames are stored; null until a listener has begun.
    watermark text,
    -- The newest lease of a listener that has written: older ones come too late.
    epoch     bigint NOT NULL DEFAULT 0,
    -- The account was disconnected: nothing follows.
    closed    boolean NOT NULL DEFAULT false,
    PRIMARY KEY (source)
) WITH (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05
);

CREATE INDEX event_source_bucket ON event_source (bucket);
CREATE INDEX event_source_org ON event_source (org_id);

-- owner: event
-- How far the log was taken over, by bucket. The epoch is the lease's: whoever comes with an older one commits nothing.
CREATE TABLE event_bucket (
    bucket    smallint PRIMARY KEY,
    epoch     bigint NOT NULL,
    log_epoch text NOT NULL,
    committed bigint NOT NULL,
    -- The newest time of an event: those that follow are not older, whatever clock their node has.
    last_at   timestamptz NOT NULL
) WITH (
    fillfactor = 50
);

-- owner: outbox
-- Bucket is null for events of a version that did not know of buckets; whoever takes events fills it in.
ALTER TABLE outbox
ADD COLUMN bucket smallint,
ADD COLUMN of_user_id text NOT NULL DEFAULT '',
ADD COLUMN reference_id text NOT NULL DEFAULT '';

CREATE INDEX outbox_bucket ON outbox (bucket, seq);
