-- +goose Up

-- owner: org
-- A tenant. Everything else in the database hangs on its id.
CREATE TABLE org (
    id               text PRIMARY KEY,
    name             text NOT NULL,
    plan             text NOT NULL,
    environment      text NOT NULL CHECK (environment IN ('sandbox', 'live')),
    contact_email    text NOT NULL,
    -- What differs from the plan: {"callsPerMinute": 50}.
    limits           jsonb NOT NULL DEFAULT '{}',
    suspended_at     timestamptz,
    suspended_reason text NOT NULL DEFAULT '',
    -- Grows with every change that a node must notice before it answers the next call.
    auth_epoch       bigint NOT NULL DEFAULT 1,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL
);
