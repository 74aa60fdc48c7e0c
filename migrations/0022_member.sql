-- +goose Up
-- Before the first release.
-- squawk-ignore-file require-concurrent-index-creation

-- owner: member
-- Somebody who signs in. A person is no org's: they may belong to several.
CREATE TABLE person (
    id         text PRIMARY KEY,
    -- In lower case, as the identity provider gave it last. It is no key: an address may be given to somebody else one day.
    email      text NOT NULL,
    name       text NOT NULL,
    created_at timestamptz NOT NULL
);

-- owner: member
-- By what an identity provider knows a person.
CREATE TABLE person_identity (
    issuer     text NOT NULL,
    subject    text NOT NULL,
    person_id  text NOT NULL REFERENCES person (id),
    created_at timestamptz NOT NULL,
    PRIMARY KEY (issuer, subject)
);

-- owner: member
CREATE TABLE org_member (
    org_id       text NOT NULL REFERENCES org (id),
    person_id    text NOT NULL REFERENCES person (id),
    role         text NOT NULL CHECK (role IN ('owner', 'admin', 'developer', 'support')),
    joined_at    timestamptz NOT NULL,
    last_seen_at timestamptz,
    PRIMARY KEY (org_id, person_id)
);

CREATE INDEX org_member_person ON org_member (person_id);

-- owner: member
-- Invitations that can still be taken up. A row is gone when it was used, replaced or withdrawn.
CREATE TABLE invitation (
    org_id           text NOT NULL REFERENCES org (id),
    id               text NOT NULL,
    -- SHA-256 of the token in the link, which has 256 bits of entropy.
    hash             bytea NOT NULL CHECK (octet_length(hash) = 32),
    -- In lower case. Only somebody with this address can use it.
    email            text NOT NULL,
    role             text NOT NULL CHECK (role IN ('owner', 'admin', 'developer', 'support')),
    invited_by_kind  text NOT NULL,
    invited_by_label text NOT NULL,
    created_at       timestamptz NOT NULL,
    expires_at       timestamptz NOT NULL,
    PRIMARY KEY (org_id, id)
);

CREATE UNIQUE INDEX invitation_hash ON invitation (hash);
CREATE UNIQUE INDEX invitation_email ON invitation (org_id, email);

-- owner: member
-- A signed-in browser.
CREATE TABLE browser_session (
    id             text PRIMARY KEY,
    -- SHA-256 of the cookie, which has 256 bits of entropy.
    hash           bytea NOT NULL CHECK (octet_length(hash) = 32),
    -- Empty for an operator's.
    person_id      text NOT NULL,
    -- The org that the browser shows; empty before there is one.
    current_org    text NOT NULL,
    -- Of an operator's: the one org that it may read, and why.
    support_org    text NOT NULL DEFAULT '',
    support_reason text NOT NULL DEFAULT '',
    user_agent     text NOT NULL,
    created_at     timestamptz NOT NULL,
    last_seen_at   timestamptz NOT NULL,
    -- When it ends whatever happens.
    ends_at        timestamptz NOT NULL,
    ended_at       timestamptz
);

CREATE UNIQUE INDEX browser_session_hash ON browser_session (hash);
CREATE INDEX browser_session_person ON browser_session (person_id);
CREATE INDEX browser_session_ends ON browser_session (ends_at);

-- owner: member
-- Operators who may open an org's dashboard. A row is gone when it was used.
CREATE TABLE support_offer (
    org_id     text NOT NULL REFERENCES org (id),
    hash       bytea NOT NULL CHECK (octet_length(hash) = 32),
    reason     text NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (org_id, hash)
);

CREATE UNIQUE INDEX support_offer_hash ON support_offer (hash);

-- A browser session acts in an org by a key that nobody sees: its hash is that of the cookie and the org. So all that holds
-- for keys holds for it.
ALTER TABLE api_key
    ADD COLUMN kind text NOT NULL DEFAULT 'secret' CHECK (kind IN ('secret', 'session')),
    ADD COLUMN session_id text NOT NULL DEFAULT '',
    ADD COLUMN person_id text NOT NULL DEFAULT '';

CREATE INDEX api_key_session ON api_key (session_id) WHERE kind = 'session';
CREATE INDEX api_key_person ON api_key (org_id, person_id) WHERE kind = 'session';
CREATE INDEX api_key_session_expires ON api_key (expires_at) WHERE kind = 'session';
