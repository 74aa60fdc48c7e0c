-- +goose Up

-- owner: audit
-- Append-only. Each entry carries the hash of the one before it, so a gap or a change shows.
CREATE TABLE audit_entry (
    org_id      text NOT NULL REFERENCES org (id),
    seq         bigint NOT NULL,
    id          text NOT NULL,
    at          timestamptz NOT NULL,
    actor_kind  text NOT NULL,
    actor_id    text NOT NULL,
    actor_label text NOT NULL,
    action      text NOT NULL,
    target      text NOT NULL,
    request_id  text NOT NULL,
    ip_hash     text NOT NULL,
    -- json, not jsonb: the text is part of what is hashed.
    changes     json NOT NULL,
    hash        bytea NOT NULL,
    PRIMARY KEY (org_id, seq)
);

CREATE INDEX audit_entry_target ON audit_entry (org_id, target, seq);

-- owner: audit
-- The end of each org's chain; its row lock puts the entries of one org in a row.
CREATE TABLE audit_head (
    org_id text PRIMARY KEY REFERENCES org (id),
    seq    bigint NOT NULL,
    hash   bytea NOT NULL
);
