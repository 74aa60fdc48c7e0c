-- +goose Up

-- owner: connect
-- A connect attempt. The row is the only truth: whatever a worker knows beside it may be lost at any moment.
CREATE TABLE attempt (
    org_id               text NOT NULL REFERENCES org (id),
    id                   text NOT NULL,
    -- Grows with every change that a caller can see.
    version              bigint NOT NULL,
    kind                 text NOT NULL,
    state                text NOT NULL,
    progress             text NOT NULL,
    -- A keyed hash of the login, so that one login has one open attempt; null if it is not known beforehand.
    login                bytea,
    account_id           text NOT NULL DEFAULT '',
    reconnect            boolean NOT NULL DEFAULT false,
    session_id           text NOT NULL DEFAULT '',
    label                text NOT NULL,
    region               text NOT NULL,
    reference            text NOT NULL,
    metadata             jsonb NOT NULL,
    remember             boolean NOT NULL,
    return_url           text NOT NULL DEFAULT '',

    -- What the platform asks for.
    channel              text NOT NULL DEFAULT '',
    available            text[] NOT NULL DEFAULT '{}',
    mask                 text NOT NULL DEFAULT '',
    challenge_sent       boolean NOT NULL DEFAULT false,
    challenge_expires_at timestamptz,
    challenges           integer NOT NULL DEFAULT 0,
    submissions          integer NOT NULL DEFAULT 0,
    resends              integer NOT NULL DEFAULT 0,
    resend_at            timestamptz,
    qr_expires_at        timestamptz,

    -- The step to be taken, and who is at it.
    step                 text NOT NULL DEFAULT '',
    step_seq             bigint NOT NULL DEFAULT 0,
    step_at              timestamptz,
    target               text NOT NULL DEFAULT '',
    tries                integer NOT NULL DEFAULT 0,
    retry_at             timestamptz,
    poll_at              timestamptz,
    lease                text NOT NULL DEFAULT '',
    lease_end            timestamptz,
    sent                 boolean NOT NULL DEFAULT false,

    -- Sealed: what signs in, and where the sign-in stands.
    secrets              bytea,
    secrets_version      bigint NOT NULL DEFAULT 0,
    -- Sealed: a code on its way.
    input                bytea,
    -- The data key is gone.
    shredded             boolean NOT NULL DEFAULT false,
    -- Who agreed to what, for the account that comes of it.
    consent              jsonb NOT NULL DEFAULT '{}',
    started_by           jsonb NOT NULL DEFAULT '{}',

    failure_code         text NOT NULL DEFAULT '',
    failure_after        bigint NOT NULL DEFAULT 0,
    upstream_code        integer NOT NULL DEFAULT 0,
    upstream_message     text NOT NULL DEFAULT '',

    created_at           timestamptz NOT NULL,
    updated_at           timestamptz NOT NULL,
    deadline             timestamptz,
    expires_at           timestamptz NOT NULL,
    finished_at          timestamptz,
    -- When somebody must look at it although nobody asks. All timers of an attempt are in it.
    wake_at              timestamptz,
    PRIMARY KEY (org_id, id)
);

CREATE UNIQUE INDEX attempt_id ON attempt (id);
CREATE UNIQUE INDEX attempt_login ON attempt (org_id, login) WHERE finished_at IS NULL AND login IS NOT NULL;
CREATE INDEX attempt_wake ON attempt (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX attempt_account ON attempt (org_id, account_id) WHERE finished_at IS NULL;
CREATE INDEX attempt_finished ON attempt (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX attempt_unshredded ON attempt (finished_at) WHERE finished_at IS NOT NULL AND NOT shredded;

-- owner: connect
-- Sign-ins of one login over all orgs, so that nobody tries passwords through us. The login is a keyed hash.
CREATE TABLE login_guard (
    login bytea PRIMARY KEY,
    level double precision NOT NULL,
    at    timestamptz NOT NULL
);

-- owner: connect
-- How an org's sign-ins with a password ended, by hour, to notice one that tries passwords.
CREATE TABLE connect_outcome (
    org_id  text NOT NULL REFERENCES org (id),
    hour    timestamptz NOT NULL,
    tried   bigint NOT NULL DEFAULT 0,
    refused bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (org_id, hour)
);
