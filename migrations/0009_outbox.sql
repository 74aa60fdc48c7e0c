-- +goose Up

-- owner: outbox
-- Events of our own, written in the transaction of what they tell of and taken into the event log from here.
CREATE TABLE outbox (
    org_id     text NOT NULL REFERENCES org (id),
    seq        bigint GENERATED ALWAYS AS IDENTITY,
    id         text NOT NULL,
    -- Empty for an event of the org's own.
    account_id text NOT NULL,
    kind       text NOT NULL,
    data       jsonb NOT NULL,
    at         timestamptz NOT NULL,
    PRIMARY KEY (seq)
);

CREATE INDEX outbox_org ON outbox (org_id, seq);
