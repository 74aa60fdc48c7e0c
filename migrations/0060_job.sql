-- +goose Up

-- Work that is longer than a call, such as the export of an organisation.
CREATE TABLE job (
    org_id      text NOT NULL REFERENCES org (id),
    id          text NOT NULL,
    kind        text NOT NULL,
    state       text NOT NULL CHECK (state IN ('queued', 'running', 'paused_by_limit', 'completed', 'completed_with_errors', 'failed', 'cancelled')),
    params      jsonb NOT NULL,
    -- The person or key whose rights the job uses, and who is named in events.
    asked_by    jsonb NOT NULL,

    -- Where the work continues; null at its beginning. It is saved together with the part of the result before it.
    checkpoint  jsonb,
    parts       integer NOT NULL DEFAULT 0,
    accounts_done  bigint NOT NULL DEFAULT 0,
    accounts_total bigint NOT NULL DEFAULT 0,
    items       bigint NOT NULL DEFAULT 0,
    failures    bigint NOT NULL DEFAULT 0,
    percent     smallint NOT NULL DEFAULT 0,
    -- The code and detail of the problem that ended it.
    error_code  text NOT NULL DEFAULT '',
    error_detail text NOT NULL DEFAULT '',

    -- Who runs it. The epoch grows with each lease; a worker with an older one saves nothing.
    holder      text NOT NULL DEFAULT '',
    epoch       bigint NOT NULL DEFAULT 0,
    lease_end   timestamptz,
    -- Tries in a row that saved nothing.
    tries       integer NOT NULL DEFAULT 0,

    created_at  timestamptz NOT NULL,
    started_at  timestamptz,
    finished_at timestamptz,
    -- When the result was deleted.
    expired_at  timestamptz,
    -- When a worker must look at the row: it waits for a worker, its lease ends, its result expires, or the row itself.
    wake_at     timestamptz NOT NULL,
    PRIMARY KEY (org_id, id)
);

CREATE INDEX job_wake ON job (wake_at);

-- The parts of a job's result, in order. Each is an object outside of the database.
CREATE TABLE job_part (
    org_id text NOT NULL,
    job_id text NOT NULL,
    part   integer NOT NULL,
    -- The name of the object.
    object text NOT NULL,
    -- The blocks of the object: for each whose key seals it, and its sizes before and after.
    blocks jsonb NOT NULL,
    PRIMARY KEY (org_id, job_id, part),
    FOREIGN KEY (org_id, job_id) REFERENCES job (org_id, id) ON DELETE CASCADE
);

-- +goose StatementBegin
DO $$
DECLARE
    tenant text;
BEGIN
    FOREACH tenant IN ARRAY ARRAY['job', 'job_part'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', tenant);
        EXECUTE format(
            'CREATE POLICY org ON %I USING (CASE WHEN org_id = current_setting(''stagedoor.org'', true) THEN true ELSE current_setting(''stagedoor.org'', true) = ''*'' END)',
            tenant
        );
    END LOOP;
END
$$;
-- +goose StatementEnd
