-- +goose Up

-- owner: idempotency
-- Requests that carried an Idempotency-Key, and how they were answered. A row is there from before the request runs.
CREATE TABLE idempotency_key (
    org_id       text NOT NULL REFERENCES org (id),
    key          text NOT NULL,
    -- The operation, as "POST /v1/me/keys".
    route        text NOT NULL,
    -- A keyed hash of who asked for what: bodies hold passwords, which a plain hash would let be guessed.
    request_hash bytea NOT NULL,
    -- "large" is done as well, with an answer that is not kept.
    state        text NOT NULL CHECK (state IN ('running', 'done', 'large')),
    -- The run that may settle the row, and until when it counts as alive.
    owner        text NOT NULL,
    lease_until  timestamptz NOT NULL,
    status       integer NOT NULL DEFAULT 0,
    headers      jsonb NOT NULL DEFAULT '{}',
    -- Sealed with the org's key: an answer may hold a secret.
    body         bytea NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (org_id, key, route)
);

-- The answer goes into the row that was reserved for it; with room on its page no index is touched.
ALTER TABLE idempotency_key SET (fillfactor = 80);

CREATE INDEX idempotency_key_expires ON idempotency_key (expires_at);
