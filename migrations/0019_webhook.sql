-- +goose Up

-- Numbers the orders that owners give to their webhooks. One is never used twice, so that an old one is told from a new one even when a
-- webhook was deleted and made again.
CREATE SEQUENCE webhook_gen;

-- owner: webhook
-- Where an account's events are sent, one per account. A deleted one stays for an hour, so that nodes notice.
CREATE TABLE webhook (
    org_id           text NOT NULL,
    account_id       text NOT NULL,
    bucket           smallint NOT NULL,
    url              text NOT NULL,
    -- Null for all events.
    events           text [],
    -- strict or none.
    ordering         text NOT NULL,
    max_in_flight    smallint NOT NULL,
    -- The signing secret, and the one before while both are used. They are sealed for the account, by version; null once it is deleted.
    secret_version   bigint NOT NULL,
    secret           bytea,
    secret_last4     text NOT NULL,
    previous_version bigint NOT NULL DEFAULT 0,
    previous         bytea,
    previous_until   timestamptz,
    -- The last event before it was made.
    start_seq        bigint NOT NULL,
    gen              bigint NOT NULL,
    -- How many tests were made lately, as a bucket that drains.
    test_level       double precision NOT NULL DEFAULT 0,
    test_at          timestamptz NOT NULL,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    -- By the database's clock, for nodes that look for changes.
    changed_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_at       timestamptz,
    PRIMARY KEY (org_id, account_id),
    FOREIGN KEY (org_id, account_id) REFERENCES account (org_id, id)
);

CREATE INDEX webhook_account ON webhook (account_id);
CREATE INDEX webhook_changed ON webhook (changed_at);

-- owner: webhook
-- How far the delivery of an account's events is, while it is not simply up to date. A healthy webhook has no row.
CREATE TABLE webhook_lane (
    org_id      text NOT NULL,
    account_id  text NOT NULL,
    bucket      smallint NOT NULL,
    -- The webhook's when it was written. Whoever comes with an older one changes nothing.
    gen         bigint NOT NULL,
    -- lagging, backoff, draining, paused or disabled.
    state       text NOT NULL,
    -- The last event that is done with; -1 for as far as the bucket's floor.
    cursor      bigint NOT NULL,
    -- With which gen the owner has set the cursor; 0 if whoever delivers has written it.
    moved       bigint NOT NULL DEFAULT 0,
    fail_since  timestamptz,
    fail_count  integer NOT NULL DEFAULT 0,
    next_at     timestamptz,
    last_status smallint NOT NULL DEFAULT 0,
    last_error  text NOT NULL DEFAULT '',
    reason      text NOT NULL DEFAULT '',
    head_tries  integer NOT NULL DEFAULT 0,
    head_since  timestamptz,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (org_id, account_id),
    FOREIGN KEY (org_id, account_id) REFERENCES webhook (org_id, account_id) ON DELETE CASCADE
) WITH (
    fillfactor = 70
);

CREATE INDEX webhook_lane_bucket ON webhook_lane (bucket);

-- owner: webhook
-- Up to when everything of a bucket is delivered, but for accounts that have a row in webhook_lane. The epoch is the lease's.
CREATE TABLE webhook_bucket (
    bucket   smallint PRIMARY KEY,
    epoch    bigint NOT NULL,
    floor_at timestamptz NOT NULL,
    -- Whoever had it has let go of it in order: nothing was under way.
    clean    boolean NOT NULL
) WITH (
    fillfactor = 50
);

-- owner: webhook
-- What is delivered beside the order: events that were refused, single ones that are asked for again, and replays.
CREATE TABLE webhook_errand (
    org_id      text NOT NULL,
    account_id  text NOT NULL,
    id          text NOT NULL,
    bucket      smallint NOT NULL,
    -- retry, redeliver or replay.
    kind        text NOT NULL,
    from_seq    bigint NOT NULL,
    to_seq      bigint NOT NULL,
    -- The last event that is done with.
    cursor      bigint NOT NULL,
    -- Null for all events.
    events      text [],
    only_failed boolean NOT NULL DEFAULT false,
    tries       integer NOT NULL,
    since       timestamptz NOT NULL,
    next_at     timestamptz NOT NULL,
    PRIMARY KEY (org_id, account_id, id),
    FOREIGN KEY (org_id, account_id) REFERENCES webhook (org_id, account_id) ON DELETE CASCADE
);

CREATE INDEX webhook_errand_due ON webhook_errand (bucket, next_at);
CREATE UNIQUE INDEX webhook_errand_retry ON webhook_errand (org_id, account_id, from_seq) WHERE kind = 'retry';

-- owner: webhook
-- Every delivery that was tried; a partition per day (UTC). Rows come by COPY, so there is no primary key.
CREATE TABLE webhook_delivery (
    at         timestamptz NOT NULL,
    -- 0 for an event that is not stored: ephemeral, or a test.
    seq        bigint NOT NULL,
    took_us    bigint NOT NULL,
    attempt    integer NOT NULL,
    -- 0 if there was no answer.
    status     smallint NOT NULL,
    delivered  boolean NOT NULL,
    org_id     text NOT NULL,
    account_id text NOT NULL,
    id         text NOT NULL,
    event_id   text NOT NULL,
    kind       text NOT NULL,
    -- live, retry, redeliver, replay or test.
    cause      text NOT NULL,
    -- Why there was no answer.
    error      text NOT NULL,
    -- The beginning of the answer, of failures only.
    snippet    text NOT NULL
) PARTITION BY RANGE (
    at
);

CREATE INDEX webhook_delivery_account ON webhook_delivery (org_id, account_id, at DESC, id DESC);
