-- +goose Up

-- owner: stream
-- Tokens that let a browser open one stream. A row is gone when its token was used.
CREATE TABLE stream_token (
    org_id     text NOT NULL REFERENCES org (id),
    -- SHA-256 of the whole token, which has 256 bits of entropy.
    hash       bytea NOT NULL CHECK (octet_length(hash) = 32),
    account_id text NOT NULL,
    -- Whom the token stands for.
    key_id     text NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (org_id, hash)
);

CREATE UNIQUE INDEX stream_token_hash ON stream_token (hash);
CREATE INDEX stream_token_expires ON stream_token (expires_at);
