-- +goose Up

-- owner: usage
-- What was called, by hour. Sums only; a request leaves no row of its own here.
CREATE TABLE usage_hour (
    org_id     text NOT NULL REFERENCES org (id),
    hour       timestamptz NOT NULL,
    -- Empty for calls that concern no account.
    account_id text NOT NULL,
    -- "messages.send" for an SDK method, the operation's id otherwise.
    operation  text NOT NULL,
    access     text NOT NULL,
    outcome    text NOT NULL,
    calls      bigint NOT NULL,
    PRIMARY KEY (org_id, hour, account_id, operation, access, outcome)
);
