-- +goose Up

-- owner: usage
-- What an org's traffic with platforms weighed, by hour and region of egress.
CREATE TABLE usage_bytes (
    org_id   text NOT NULL REFERENCES org (id),
    hour     timestamptz NOT NULL,
    region   text NOT NULL,
    sent     bigint NOT NULL,
    received bigint NOT NULL,
    PRIMARY KEY (org_id, hour, region)
);

-- owner: connect
-- What became of an org's attempts to connect, by calendar month (UTC). Attempts themselves are forgotten after some days.
CREATE TABLE connect_month (
    org_id    text NOT NULL REFERENCES org (id),
    month     timestamptz NOT NULL,
    started   bigint NOT NULL DEFAULT 0,
    succeeded bigint NOT NULL DEFAULT 0,
    failed    bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (org_id, month)
);
