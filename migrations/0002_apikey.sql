-- +goose Up

-- owner: apikey
CREATE TABLE api_key (
    org_id     text NOT NULL REFERENCES org (id),
    id         text NOT NULL,
    -- SHA-256 of the whole key. The key has 256 bits of entropy, so no slow hash is needed.
    hash       bytea NOT NULL CHECK (octet_length(hash) = 32),
    -- The key's first characters: enough to tell two keys apart, useless for guessing one.
    hint       text NOT NULL,
    label      text NOT NULL,
    scopes     text[] NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    PRIMARY KEY (org_id, id)
);

CREATE UNIQUE INDEX api_key_hash ON api_key (hash);
