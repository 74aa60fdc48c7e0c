-- +goose Up

-- owner: limit
-- The incarnation of an org's counters in Redis: one more each time they are rebuilt from here.
CREATE TABLE ledger (
    org_id       text PRIMARY KEY REFERENCES org (id),
    incarnation  bigint NOT NULL DEFAULT 0,
    -- Redis's own total was taken over when the incarnation after this one began: whatever Redis had counted under it, or
    -- under an older one, is in month_total already.
    -- Only for the month that was taken over.
    lifted       bigint NOT NULL DEFAULT 0,
    lifted_month integer NOT NULL DEFAULT 0,
    lifted_at    timestamptz NOT NULL DEFAULT '-infinity',
    -- Calls of a month that month_total has and Redis lacks: they are to be credited to it.
    owed         bigint NOT NULL DEFAULT 0,
    owed_month   integer NOT NULL DEFAULT 0,
    -- Redis may have a call twice; a rebuild settles it.
    doubted      boolean NOT NULL DEFAULT false
);

-- owner: limit
-- Calls of a calendar month (UTC), as yyyymm. Nodes add what they admitted, once a second.
CREATE TABLE month_total (
    org_id text NOT NULL REFERENCES org (id),
    month  integer NOT NULL,
    used   bigint NOT NULL,
    PRIMARY KEY (org_id, month)
);

-- owner: limit
-- The last batch each process added to month_total, so that a batch whose commit was not confirmed is not added twice.
CREATE TABLE month_flush (
    process text PRIMARY KEY,
    batch   bigint NOT NULL,
    at      timestamptz NOT NULL
);

-- owner: limit
-- Connect attempts per hour. Here and not in Redis: it is taken in the transaction that creates the attempt.
CREATE TABLE connect_bucket (
    org_id text PRIMARY KEY REFERENCES org (id),
    level  double precision NOT NULL,
    at     timestamptz NOT NULL
);
