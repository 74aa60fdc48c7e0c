-- +goose Up

-- One URL for the events of many accounts and of the organisation. A deleted one stays for an hour, so that nodes notice.
CREATE TABLE webhook_endpoint (
    org_id           text NOT NULL,
    id               text NOT NULL,
    -- The bucket whose holder sends its events.
    bucket           smallint NOT NULL,
    url              text NOT NULL,
    description      text NOT NULL,
    -- Null for all events.
    events           text [],
    -- Null for all accounts and the organisation itself.
    account_ids      text [],
    -- Null for all platforms.
    platforms        text [],
    -- account or none.
    ordering         text NOT NULL,
    enabled          boolean NOT NULL DEFAULT true,
    -- The signing secret, and the one before while both are used. They are sealed for the organisation, by version.
    secret_version   bigint NOT NULL,
    secret           bytea,
    secret_last4     text NOT NULL,
    previous_version bigint NOT NULL DEFAULT 0,
    previous         bytea,
    previous_until   timestamptz,
    -- Grows with every change, so that whoever sends notices it.
    gen              bigint NOT NULL,
    -- How many tests were made lately, as a bucket that drains.
    test_level       double precision NOT NULL DEFAULT 0,
    test_at          timestamptz NOT NULL,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    -- By the database's clock, for nodes that look for changes.
    changed_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_at       timestamptz,
    PRIMARY KEY (org_id, id)
);

CREATE INDEX webhook_endpoint_bucket ON webhook_endpoint (bucket);
CREATE INDEX webhook_endpoint_changed ON webhook_endpoint (changed_at);

-- How far the events of an organisation are delivered to an endpoint: up to a position, except those of accounts with a row in
-- webhook_endpoint_lane. It is the only row of an endpoint that is down.
CREATE TABLE webhook_endpoint_progress (
    org_id      text NOT NULL,
    endpoint_id text NOT NULL,
    after_tx    bigint NOT NULL,
    after_id    text NOT NULL,
    -- live, backoff or disabled.
    state       text NOT NULL,
    fail_since  timestamptz,
    fail_count  integer NOT NULL DEFAULT 0,
    next_at     timestamptz,
    last_status smallint NOT NULL DEFAULT 0,
    last_error  text NOT NULL DEFAULT '',
    reason      text NOT NULL DEFAULT '',
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (org_id, endpoint_id),
    FOREIGN KEY (org_id, endpoint_id) REFERENCES webhook_endpoint (org_id, id) ON DELETE CASCADE
) WITH (
    fillfactor = 50
);

-- How far the delivery of one account's events to an endpoint is, while it is behind the endpoint's position. The columns are those of
-- webhook_lane; source is an account, or the organisation.
CREATE TABLE webhook_endpoint_lane (
    org_id      text NOT NULL,
    endpoint_id text NOT NULL,
    source      text NOT NULL,
    state       text NOT NULL,
    cursor      bigint NOT NULL,
    fail_since  timestamptz,
    fail_count  integer NOT NULL DEFAULT 0,
    next_at     timestamptz,
    last_status smallint NOT NULL DEFAULT 0,
    last_error  text NOT NULL DEFAULT '',
    reason      text NOT NULL DEFAULT '',
    head_tries  integer NOT NULL DEFAULT 0,
    head_since  timestamptz,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (org_id, endpoint_id, source),
    FOREIGN KEY (org_id, endpoint_id) REFERENCES webhook_endpoint (org_id, id) ON DELETE CASCADE
) WITH (
    fillfactor = 70
);

CREATE INDEX webhook_endpoint_lane_source ON webhook_endpoint_lane (org_id, source);

-- What an endpoint gets apart from the order, as in webhook_errand. A retry or redelivery is one event of a source; a replay is the
-- events of the organisation from after_tx and after_id to until_tx.
CREATE TABLE webhook_endpoint_errand (
    org_id      text NOT NULL,
    endpoint_id text NOT NULL,
    id          text NOT NULL,
    bucket      smallint NOT NULL,
    -- retry, redeliver or replay.
    kind        text NOT NULL,
    source      text NOT NULL,
    seq         bigint NOT NULL,
    after_tx    bigint NOT NULL,
    after_id    text NOT NULL,
    until_tx    bigint NOT NULL,
    from_at     timestamptz,
    until_at    timestamptz,
    account_ids text [],
    events      text [],
    tries       integer NOT NULL,
    since       timestamptz NOT NULL,
    next_at     timestamptz NOT NULL,
    PRIMARY KEY (org_id, endpoint_id, id),
    FOREIGN KEY (org_id, endpoint_id) REFERENCES webhook_endpoint (org_id, id) ON DELETE CASCADE
);

CREATE INDEX webhook_endpoint_errand_due ON webhook_endpoint_errand (bucket, next_at);
CREATE INDEX webhook_endpoint_errand_source ON webhook_endpoint_errand (org_id, source) WHERE source <> '';
CREATE UNIQUE INDEX webhook_endpoint_errand_retry ON webhook_endpoint_errand (org_id, endpoint_id, source, seq) WHERE kind = 'retry';

-- A delivery to an endpoint has the endpoint's id as its account_id, and here the account or organisation of its event. Empty for a
-- delivery to the webhook of an account.
ALTER TABLE webhook_delivery ADD COLUMN source text NOT NULL DEFAULT '';

-- +goose StatementBegin
DO $$
DECLARE
    tenant text;
BEGIN
    FOREACH tenant IN ARRAY ARRAY['webhook_endpoint', 'webhook_endpoint_progress', 'webhook_endpoint_lane', 'webhook_endpoint_errand'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', tenant);
        EXECUTE format(
            'CREATE POLICY org ON %I USING (CASE WHEN org_id = current_setting(''stagedoor.org'', true) THEN true ELSE current_setting(''stagedoor.org'', true) = ''*'' END)',
            tenant
        );
    END LOOP;
END
$$;
-- +goose StatementEnd
