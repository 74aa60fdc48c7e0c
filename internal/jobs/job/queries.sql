-- name: Add :exec
INSERT INTO job (org_id, id, kind, state, params, asked_by, created_at, wake_at, input, awaits)
VALUES (@org_id, @id, @kind, 'queued', @params, @asked_by, @now, @wake_at, @input, @awaits);

-- name: Give :execrows
-- The input of a job that waits for it.
UPDATE job SET params = @params, input = @input, awaits = false, wake_at = @wake_at
WHERE org_id = @org_id AND id = @id AND awaits AND state = 'queued';

-- name: CountOpen :one
SELECT count(*) AS jobs, count(*) FILTER (WHERE kind = @kind) AS of_kind FROM job
WHERE org_id = @org_id AND state IN ('queued', 'running', 'paused_by_limit');

-- name: Get :one
SELECT * FROM job WHERE org_id = @org_id AND id = @id;

-- name: Lock :one
SELECT * FROM job WHERE org_id = @org_id AND id = @id FOR UPDATE;

-- name: List :many
SELECT * FROM job WHERE org_id = @org_id AND (@before::text = '' OR id < @before) AND (@kind::text = '' OR kind = @kind)
ORDER BY id DESC LIMIT @max_rows;

-- name: Take :one
-- Nothing if it is over or another worker has it.
UPDATE job SET state = 'running', holder = @holder, epoch = epoch + 1, lease_end = @lease_end, wake_at = @lease_end, tries = tries + 1,
    started_at = coalesce(started_at, @now)
WHERE org_id = @org_id AND id = @id AND state IN ('queued', 'running', 'paused_by_limit') AND (lease_end IS NULL OR lease_end <= @now)
RETURNING *;

-- name: Renew :execrows
-- A lease that the run has given back is not renewed: the job would wait for its end.
UPDATE job SET lease_end = @lease_end, wake_at = @lease_end
WHERE org_id = @org_id AND id = @id AND epoch = @epoch AND state = 'running' AND lease_end IS NOT NULL;

-- name: Save :execrows
UPDATE job SET checkpoint = @checkpoint, parts = @parts, accounts_done = @accounts_done, accounts_total = @accounts_total, items = @items,
    failures = @failures, percent = @percent, tries = 0
WHERE org_id = @org_id AND id = @id AND epoch = @epoch AND state = 'running';

-- name: Release :execrows
-- Ends a lease before the job is over. A try in which nothing failed is not counted.
UPDATE job SET state = @state, holder = '', lease_end = NULL, wake_at = @wake_at,
    tries = CASE WHEN @has_failed::boolean THEN tries ELSE greatest(tries - 1, 0) END
WHERE org_id = @org_id AND id = @id AND epoch = @epoch AND state = 'running';

-- name: Finish :one
-- A job that is over keeps no lease. The epoch is 0 for one that is ended by a caller.
UPDATE job SET state = @state, error_code = @error_code, error_detail = @error_detail, holder = '', lease_end = NULL, finished_at = @now,
    percent = CASE WHEN @state::text IN ('completed', 'completed_with_errors') THEN 100 ELSE percent END, wake_at = @wake_at
WHERE org_id = @org_id AND id = @id AND (@epoch::bigint = 0 OR epoch = @epoch AND state = 'running')
RETURNING *;

-- name: AddPart :exec
INSERT INTO job_part (org_id, job_id, part, object, blocks) VALUES (@org_id, @job_id, @part, @object, @blocks);

-- name: Parts :many
SELECT part, object, blocks FROM job_part WHERE org_id = @org_id AND job_id = @job_id ORDER BY part;

-- name: LockDue :many
-- tenant: workers look for jobs of all organisations
SELECT * FROM job WHERE wake_at <= @now ORDER BY wake_at LIMIT @max_rows FOR UPDATE SKIP LOCKED;

-- name: Wake :exec
UPDATE job SET wake_at = @wake_at WHERE org_id = @org_id AND id = @id;

-- name: Expire :exec
UPDATE job SET expired_at = @now, wake_at = @wake_at WHERE org_id = @org_id AND id = @id;

-- name: DropParts :exec
DELETE FROM job_part WHERE org_id = @org_id AND job_id = @job_id;

-- name: Drop :exec
DELETE FROM job WHERE org_id = @org_id AND id = @id;

-- name: CountAllOpen :many
-- tenant: metrics count the jobs of all orgs
SELECT kind, state, count(*) AS jobs FROM job WHERE finished_at IS NULL GROUP BY kind, state;
