-- +goose Up

-- owner: usage
-- Calls by hour, for charts: of the whole org, and of each account that was called. One row where usage_hour has one for every method
-- and outcome, so that a month is some hundred rows however many accounts an org has.
CREATE TABLE usage_series (
    org_id        text NOT NULL REFERENCES org (id),
    -- Empty for the whole org.
    account_id    text NOT NULL,
    hour          timestamptz NOT NULL,
    calls         bigint NOT NULL,
    limited       bigint NOT NULL,
    client_errors bigint NOT NULL,
    failed        bigint NOT NULL,
    -- How many calls took how long, by the classes in internal/usage/kinds.go.
    took          bigint[] NOT NULL,
    PRIMARY KEY (org_id, account_id, hour)
) WITH (
    -- The rows of the hour change every second.
    fillfactor = 70
);
