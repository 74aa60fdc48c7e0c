-- +goose Up

-- What each node counted in each minute, for the operators' console and the status page. Kept for two days.
CREATE TABLE pulse_minute (
    at        timestamptz NOT NULL,
    node_name text NOT NULL,
    counts    jsonb NOT NULL,
    PRIMARY KEY (at, node_name)
);

-- How well each objective was met on each day, by all nodes together. Kept for 90 days.
CREATE TABLE pulse_day (
    day       timestamptz NOT NULL,
    objective text NOT NULL,
    good      bigint NOT NULL,
    total     bigint NOT NULL,
    PRIMARY KEY (day, objective)
);
