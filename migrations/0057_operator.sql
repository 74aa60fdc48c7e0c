-- +goose Up
-- Before the first release.
-- squawk-ignore-file require-concurrent-index-creation

-- Browsers in which an operator is signed in to the console. Their times are those of the database.
CREATE TABLE operator_session (
    id           text        NOT NULL PRIMARY KEY,
    hash         bytea       NOT NULL UNIQUE,
    -- Who signed in, as the identity provider says. With a token, issuer and subject are empty and name is what was entered.
    issuer       text        NOT NULL DEFAULT '',
    subject      text        NOT NULL DEFAULT '',
    email        text        NOT NULL DEFAULT '',
    name         text        NOT NULL,
    group_names  text[]      NOT NULL DEFAULT '{}',
    -- The fingerprint of the token; NULL for a person. The session ends with its token.
    token        bytea,
    user_agent   text        NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    last_seen_at timestamptz NOT NULL DEFAULT now(),
    ends_at      timestamptz NOT NULL,
    ended_at     timestamptz
);

-- Requests of operators for access to what is inside an org, and what its owners decided.
CREATE TABLE support_access (
    org_id       text        NOT NULL REFERENCES org (id),
    id           text        NOT NULL,
    operator_id  text        NOT NULL,
    operator     text        NOT NULL,
    reason       text        NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT now(),
    -- When the request expires or, once it is granted, the access.
    expires_at   timestamptz NOT NULL,
    granted_at   timestamptz,
    granted_by   text        NOT NULL DEFAULT '',
    -- When it was declined, revoked or replaced by another request.
    ended_at     timestamptz,
    ended_by     text        NOT NULL DEFAULT '',
    PRIMARY KEY (org_id, id)
);
CREATE INDEX support_access_of ON support_access (operator_id, org_id);
ALTER TABLE support_access ENABLE ROW LEVEL SECURITY;
CREATE POLICY org ON support_access USING (CASE WHEN org_id = current_setting('stagedoor.org', true) THEN true ELSE current_setting('stagedoor.org', true) = '*' END);

-- The access that an offer and a browser belong to, and its operator. Empty in rows of the previous version.
ALTER TABLE support_offer ADD COLUMN access_id text NOT NULL DEFAULT '', ADD COLUMN operator text NOT NULL DEFAULT '';
ALTER TABLE browser_session ADD COLUMN access_id text NOT NULL DEFAULT '', ADD COLUMN support_operator text NOT NULL DEFAULT '';
CREATE INDEX browser_session_access ON browser_session (access_id) WHERE access_id <> '';
