-- +goose Up
-- Before the first release.
-- squawk-ignore-file require-concurrent-index-creation

-- Nodes read all suspended orgs once a second; there are few.
CREATE INDEX org_suspended ON org (id) WHERE suspended_at IS NOT NULL;

-- owner: org
-- Which processes send something for orgs, and how recently each has learnt which of them are suspended. A suspension is answered when
-- no process is left that may act on older knowledge.
CREATE TABLE org_suspension_reader (
    process    text PRIMARY KEY,
    -- When the process may still act on what it last read.
    trusted_until timestamptz NOT NULL,
    -- The process obeys every suspension that was committed before this time.
    obeyed_at  timestamptz NOT NULL
) WITH (
    fillfactor = 50
);
