-- +goose Up

-- Calls by minute for the last two days, and by hour for keys, methods and platforms; usage_series has the hours of organisations and
-- accounts. One row for each value that was called in the time, so that a chart with a filter reads one row per point.
CREATE TABLE usage_slice (
    org_id        text NOT NULL,
    -- The length of the time that a row counts, in seconds: 60 or 3600.
    step          integer NOT NULL,
    -- What name is: all (it is empty), account, key, method or platform.
    dimension     text NOT NULL,
    name          text NOT NULL,
    at            timestamptz NOT NULL,
    calls         bigint NOT NULL,
    limited       bigint NOT NULL,
    client_errors bigint NOT NULL,
    failed        bigint NOT NULL,
    -- As in usage_series.
    took          bigint [] NOT NULL,
    PRIMARY KEY (org_id, step, dimension, name, at)
) WITH (
    -- The rows of the minute and the hour change every second.
    fillfactor = 70
);

-- usage_event by minute, for the last two days.
CREATE TABLE usage_event_minute (
    org_id     text NOT NULL,
    minute     timestamptz NOT NULL,
    received   bigint NOT NULL,
    streamed   bigint NOT NULL,
    delivered  bigint NOT NULL,
    failed     bigint NOT NULL,
    slowest_us bigint NOT NULL,
    PRIMARY KEY (org_id, minute)
) WITH (
    fillfactor = 70
);

-- The longest time from an event to the response that accepted it.
ALTER TABLE usage_event ADD COLUMN slowest_us bigint NOT NULL DEFAULT 0;

-- +goose StatementBegin
DO $$
DECLARE
    tenant text;
BEGIN
    FOREACH tenant IN ARRAY ARRAY['usage_slice', 'usage_event_minute'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', tenant);
        EXECUTE format(
            'CREATE POLICY org ON %I USING (CASE WHEN org_id = current_setting(''stagedoor.org'', true) THEN true ELSE current_setting(''stagedoor.org'', true) = ''*'' END)',
            tenant
        );
    END LOOP;
END
$$;
-- +goose StatementEnd
