-- +goose Up

-- owner: usage
-- What became of an org's events, by hour: stored, sent to streams, accepted by webhooks, and attempts of webhooks that failed.
CREATE TABLE usage_event (
    org_id    text NOT NULL REFERENCES org (id),
    hour      timestamptz NOT NULL,
    received  bigint NOT NULL,
    streamed  bigint NOT NULL,
    delivered bigint NOT NULL,
    failed    bigint NOT NULL,
    PRIMARY KEY (org_id, hour)
);

-- owner: limit
-- The highest share of the month's calls, in percent, that the org was told of.
ALTER TABLE month_total ADD COLUMN told smallint NOT NULL DEFAULT 0;
