-- name: Count :many
-- How many there are in each state of those that account.List would give.
SELECT account.state, count(*) AS accounts FROM account
WHERE account.org_id = @org_id AND account.disconnecting_at IS NULL
    AND (@reference_id::text = '' OR account.reference_id = @reference_id) AND (@label::text = '' OR account.label = @label)
    AND (sqlc.narg(among)::text[] IS NULL OR account.id = ANY (sqlc.narg(among)))
    AND (
        @query::text = '' OR strpos(lower(account.label), lower(@query)) > 0 OR strpos(lower(account.username), lower(@query)) > 0
        OR strpos(lower(account.display_name), lower(@query)) > 0 OR strpos(lower(account.reference_id), lower(@query)) > 0
        OR strpos(account.id, lower(@query)) > 0 OR strpos(account.upstream_id, @query) > 0
    )
GROUP BY account.state;

-- name: Labels :many
SELECT id, label, username FROM account WHERE org_id = @org_id AND id = ANY (@ids::text[]);
