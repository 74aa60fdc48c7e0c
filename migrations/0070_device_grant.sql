-- +goose Up

-- owner: member
-- Tools that ask to be signed in (RFC 8628). A row belongs to no organisation before a person approves it, and is deleted
-- when the tool has its key.
CREATE TABLE device_grant (
    -- SHA-256 of the tool's code, which has 256 bits of entropy.
    hash         bytea PRIMARY KEY CHECK (octet_length(hash) = 32),
    -- SHA-256 of the code that the person types.
    user_hash    bytea NOT NULL CHECK (octet_length(user_hash) = 32),
    -- What the person is shown: the name that the tool gave, and the address from which it asked.
    machine      text NOT NULL,
    address      text NOT NULL,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    polled_at    timestamptz,
    interval_sec int NOT NULL,
    -- Empty, approved or denied.
    decision     text NOT NULL DEFAULT '' CHECK (decision IN ('', 'approved', 'denied')),
    person_id    text NOT NULL DEFAULT '',
    approved_org text NOT NULL DEFAULT ''
);

CREATE UNIQUE INDEX device_grant_user_hash ON device_grant (user_hash);
CREATE INDEX device_grant_expires ON device_grant (expires_at);
