-- +goose Up

-- owner: fleet
-- The processes that run this service. A node that has not been seen for 15 s is dead.
CREATE TABLE node (
    id         text PRIMARY KEY,
    name       text NOT NULL,
    roles      text[] NOT NULL,
    version    text NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL
);
