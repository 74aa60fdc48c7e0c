-- +goose Up

-- owner: journal
-- One row per request, for its org to read; a partition per day (UTC), which the nodes make ahead and drop when nobody may read it
-- any more. There is no primary key: callers choose request ids and may choose one twice, and rows come by COPY, which a row that is
-- there already would break off.
CREATE TABLE request_log (
    at            timestamptz NOT NULL,
    took_us       bigint NOT NULL,
    -- 0 if the platform was not asked.
    upstream_us   bigint NOT NULL,
    bytes_in      bigint NOT NULL,
    bytes_out     bigint NOT NULL,
    -- 0 if the platform gave none.
    upstream_code integer NOT NULL,
    status        smallint NOT NULL,
    retryable     boolean NOT NULL,
    replayed      boolean NOT NULL,
    dry_run       boolean NOT NULL,
    org_id        text NOT NULL,
    request_id    text NOT NULL,
    key_id        text NOT NULL,
    -- Empty if the request concerned none.
    account_id    text NOT NULL,
    -- "messages.send" for an SDK method, the operation's id otherwise. Never a path.
    operation     text NOT NULL,
    verb          text NOT NULL,
    -- Empty if the request ended without a problem.
    problem       text NOT NULL
) PARTITION BY RANGE (
    at
);

CREATE INDEX request_log_at ON request_log (org_id, at DESC, request_id DESC);

-- With the time, because a caller may give all of its requests one id.
CREATE INDEX request_log_request ON request_log (org_id, request_id, at DESC);

-- An org has up to 20,000 accounts; the log of a quiet one must not be looked for among all the others'.
CREATE INDEX request_log_account ON request_log (org_id, account_id, at DESC, request_id DESC);

-- Failures are few, and what is looked for most.
CREATE INDEX request_log_failed ON request_log (org_id, at DESC, request_id DESC) WHERE problem <> '';
