-- +goose Up

-- owner: account
-- A creator's account on a platform, as one org has connected it. After a disconnect a tombstone stays: its id and its times.
CREATE TABLE account (
    org_id               text NOT NULL REFERENCES org (id),
    id                   text NOT NULL,
    -- The platform's id of the creator.
    upstream_id          text NOT NULL,
    label                text NOT NULL,
    state                text NOT NULL,
    state_reason         text NOT NULL DEFAULT '',
    state_changed_at     timestamptz NOT NULL,
    username             text NOT NULL,
    display_name         text NOT NULL,
    avatar_url           text NOT NULL,
    region               text NOT NULL,
    reference_id         text NOT NULL,
    metadata             jsonb NOT NULL DEFAULT '{}',
    remember_credentials boolean NOT NULL,
    created_at           timestamptz NOT NULL,
    -- Null until the first probe succeeded: whether the next one connects or reconnects.
    first_active_at      timestamptz,
    -- Since when calls are refused; null while they run.
    down_since           timestamptz,
    -- Grows with everything that a node which remembers the account must notice.
    session_version      bigint NOT NULL,
    -- The version that the session was sealed for, and by which sign-in it was opened.
    sealed_version       bigint NOT NULL,
    sign_in              bigint NOT NULL,
    session_dead         boolean NOT NULL DEFAULT false,
    session_expires_at   timestamptz,
    -- When the next warning of the session's end is due.
    warn_at              timestamptz,
    -- The attempt that connected last, and the one that is under way.
    attempt_id           text NOT NULL,
    attempt_kind         text NOT NULL,
    pending_attempt_id   text NOT NULL DEFAULT '',
    -- The lease of a sign-in with remembered credentials: which attempt has it, and how long. It is the fence as well: the result of an
    -- attempt that has it no more is refused.
    reauth_owner         text NOT NULL DEFAULT '',
    reauth_until         timestamptz,
    -- When the last of them began, oldest first.
    reauth_tries         timestamptz[] NOT NULL DEFAULT '{}',
    -- From here on the account is not there for anybody; a sweeper finishes what a crash leaves.
    disconnecting_at     timestamptz,
    -- Who disconnects it, as JSON, for whoever finishes.
    disconnecting_by     jsonb,
    disconnected_at      timestamptz,
    PRIMARY KEY (org_id, id)
);

-- One account per creator and org.
CREATE UNIQUE INDEX account_upstream ON account (org_id, upstream_id) WHERE disconnecting_at IS NULL;
CREATE INDEX account_reference ON account (org_id, reference_id) WHERE reference_id <> '';
CREATE INDEX account_warn ON account (warn_at) WHERE warn_at IS NOT NULL;
CREATE INDEX account_disconnecting ON account (disconnecting_at) WHERE disconnecting_at IS NOT NULL AND disconnected_at IS NULL;

-- owner: account
-- What is sealed of an account. Apart from it, so that its many small changes do not rewrite these.
CREATE TABLE account_secret (
    org_id     text NOT NULL,
    account_id text NOT NULL,
    -- session or credentials.
    purpose    text NOT NULL,
    version    bigint NOT NULL,
    sealed     bytea NOT NULL,
    PRIMARY KEY (org_id, account_id, purpose),
    FOREIGN KEY (org_id, account_id) REFERENCES account (org_id, id)
);

-- owner: account
-- How an account is, and when it is looked at next. Apart from it as well: this changes with every probe.
CREATE TABLE account_health (
    org_id          text NOT NULL,
    account_id      text NOT NULL,
    -- Spreads the due ones, so that workers seldom meet.
    shard           smallint NOT NULL,
    -- Null for an account that is not probed. A worker that takes a row moves this into the future: its lease.
    probe_at        timestamptz,
    last_seen_at    timestamptz,
    last_checked_at timestamptz,
    -- Failures in a row, and since when; successes in a row.
    troubles        integer NOT NULL DEFAULT 0,
    troubled_at     timestamptz,
    goods           integer NOT NULL DEFAULT 0,
    PRIMARY KEY (org_id, account_id),
    FOREIGN KEY (org_id, account_id) REFERENCES account (org_id, id)
) WITH (
    -- Every probe makes a row and an index entry old; the due ones are found fast only if those are cleared away soon.
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02
);

CREATE INDEX account_health_due ON account_health (shard, probe_at) WHERE probe_at IS NOT NULL;

-- owner: account
-- Who agreed to what when an account was connected. It outlives the account.
CREATE TABLE account_consent (
    org_id       text NOT NULL REFERENCES org (id),
    account_id   text NOT NULL,
    attempt_id   text NOT NULL,
    flow         text NOT NULL,
    text_hash    text NOT NULL,
    text_version text NOT NULL,
    -- creator or caller.
    who          text NOT NULL,
    ip_hash      text NOT NULL,
    at           timestamptz NOT NULL,
    PRIMARY KEY (org_id, account_id, attempt_id)
);

-- owner: account
-- Signed proof that an account's key and data are gone.
CREATE TABLE account_purge (
    org_id     text NOT NULL REFERENCES org (id),
    account_id text NOT NULL,
    at         timestamptz NOT NULL,
    -- json, not jsonb: the text is what is signed.
    receipt    json NOT NULL,
    PRIMARY KEY (org_id, account_id)
);
