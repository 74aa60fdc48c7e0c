-- name: Page :many
SELECT * FROM request_log
WHERE org_id = @org_id AND at >= @since AND at <= @before_at
  AND (at, request_id) < (@before_at::timestamptz, @before_request::text)
  AND (@every_account::boolean OR account_id = ANY (@accounts::text[]))
  AND (@operation::text = '' OR operation = @operation)
  AND (@problem::text = '' OR problem = @problem)
  AND (@key_id::text = '' OR key_id = @key_id)
  AND (@source::text = '' OR source = @source)
  AND status BETWEEN @status_from AND @status_to
  AND (@reason::text = '' OR reason = @reason)
  AND (@event_id::text = '' OR strpos(events, @event_id::text) > 0)
  AND took_us >= @min_took_us
  AND NOT (@only_counted::boolean AND is_free)
  AND (@text::text = '' OR strpos(lower(operation || ' ' || problem || ' ' || reason || ' ' || request_id || ' ' || upstream_text), @text::text) > 0)
ORDER BY at DESC, request_id DESC LIMIT @max_rows;

-- name: PageFailed :many
-- Page for what can only match requests that ended with a problem; its index has no others.
SELECT * FROM request_log
WHERE org_id = @org_id AND at >= @since AND at <= @before_at
  AND (at, request_id) < (@before_at::timestamptz, @before_request::text)
  AND problem <> ''
  AND (@every_account::boolean OR account_id = ANY (@accounts::text[]))
  AND (@operation::text = '' OR operation = @operation)
  AND (@problem::text = '' OR problem = @problem)
  AND (@key_id::text = '' OR key_id = @key_id)
  AND (@source::text = '' OR source = @source)
  AND status BETWEEN @status_from AND @status_to
  AND (@reason::text = '' OR reason = @reason)
  AND (@event_id::text = '' OR strpos(events, @event_id::text) > 0)
  AND took_us >= @min_took_us
  AND NOT (@only_counted::boolean AND is_free)
  AND (@text::text = '' OR strpos(lower(operation || ' ' || problem || ' ' || reason || ' ' || request_id || ' ' || upstream_text), @text::text) > 0)
ORDER BY at DESC, request_id DESC LIMIT @max_rows;

-- name: PageElsewhere :many
-- Page for what did not come from a program with a key; its index has only that.
SELECT * FROM request_log
WHERE org_id = @org_id AND at >= @since AND at <= @before_at
  AND (at, request_id) < (@before_at::timestamptz, @before_request::text)
  AND (@every_account::boolean OR account_id = ANY (@accounts::text[]))
  AND (@operation::text = '' OR operation = @operation)
  AND (@problem::text = '' OR problem = @problem)
  AND (@key_id::text = '' OR key_id = @key_id)
  AND source <> 'api' AND source = @source::text
  AND status BETWEEN @status_from AND @status_to
  AND (@reason::text = '' OR reason = @reason)
  AND (@event_id::text = '' OR strpos(events, @event_id::text) > 0)
  AND took_us >= @min_took_us
  AND NOT (@only_counted::boolean AND is_free)
  AND (@text::text = '' OR strpos(lower(operation || ' ' || problem || ' ' || reason || ' ' || request_id || ' ' || upstream_text), @text::text) > 0)
ORDER BY at DESC, request_id DESC LIMIT @max_rows;

-- name: PageOf :many
-- Page for one account, by its own index.
SELECT * FROM request_log
WHERE org_id = @org_id AND account_id = @account_id AND at >= @since AND at <= @before_at
  AND (at, request_id) < (@before_at::timestamptz, @before_request::text)
  AND (@operation::text = '' OR operation = @operation)
  AND (@problem::text = '' OR problem = @problem)
  AND (@key_id::text = '' OR key_id = @key_id)
  AND (@source::text = '' OR source = @source)
  AND status BETWEEN @status_from AND @status_to
  AND (@reason::text = '' OR reason = @reason)
  AND (@event_id::text = '' OR strpos(events, @event_id::text) > 0)
  AND took_us >= @min_took_us
  AND NOT (@only_counted::boolean AND is_free)
  AND (@text::text = '' OR strpos(lower(operation || ' ' || problem || ' ' || reason || ' ' || request_id || ' ' || upstream_text), @text::text) > 0)
ORDER BY at DESC, request_id DESC LIMIT @max_rows;

-- name: Get :one
-- Callers may use a request id twice; the newest counts.
SELECT * FROM request_log
WHERE org_id = @org_id AND request_id = @request_id AND at >= @since
  AND (@every_account::boolean OR account_id = ANY (@accounts::text[]))
ORDER BY at DESC LIMIT 1;

-- name: Failures :many
-- Summed by account first: counting distinct accounts would sort all rows.
WITH by_account AS (
    SELECT f.problem, f.reason, f.operation, f.status, f.account_id, count(*) AS calls, min(f.at) AS first_at, max(f.at) AS last_at
    FROM request_log f
    WHERE f.org_id = @org_id AND f.at >= @since AND f.at < @until AND f.problem <> ''
      AND (@every_account::boolean OR f.account_id = ANY (@accounts::text[]))
      AND (@source::text = '' OR f.source = @source)
    GROUP BY f.problem, f.reason, f.operation, f.status, f.account_id
), grouped AS (
    SELECT problem, reason, operation, status, sum(calls)::bigint AS calls, min(first_at)::timestamptz AS first_at, max(last_at)::timestamptz AS last_at,
           count(*) FILTER (WHERE account_id <> '') AS accounts
    FROM by_account
    GROUP BY problem, reason, operation, status
    ORDER BY 5 DESC, 7 DESC, 1, 2, 3, 4
    LIMIT @max_rows
)
SELECT g.problem, g.reason, g.operation, g.status, g.calls, g.first_at, g.last_at, g.accounts, l.request_id, l.retryable
FROM grouped g
CROSS JOIN LATERAL (
    SELECT r.request_id, r.retryable
    FROM request_log r
    WHERE r.org_id = @org_id AND r.at = g.last_at AND r.problem <> '' AND r.problem = g.problem AND r.reason = g.reason AND r.operation = g.operation AND r.status = g.status
      AND (@every_account::boolean OR r.account_id = ANY (@accounts::text[]))
      AND (@source::text = '' OR r.source = @source)
    ORDER BY r.request_id DESC LIMIT 1
) l
ORDER BY g.calls DESC, g.last_at DESC, g.problem, g.reason, g.operation, g.status;

-- name: Written :one
SELECT EXISTS (SELECT FROM request_log WHERE org_id = @org_id AND request_id = @request_id AND at = @at) AS written;
