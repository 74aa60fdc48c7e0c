-- +goose Up

-- Reports whether an account matches a search: any of its names or ids contains the text. The planner inlines it.
-- +goose StatementBegin
CREATE FUNCTION account_matches(query text, label text, username text, display_name text, reference_id text, id text, upstream_id text)
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN query = '' OR strpos(lower(label), lower(query)) > 0 OR strpos(lower(username), lower(query)) > 0
    OR strpos(lower(display_name), lower(query)) > 0 OR strpos(lower(reference_id), lower(query)) > 0
    OR strpos(id, lower(query)) > 0 OR strpos(upstream_id, query) > 0;
-- +goose StatementEnd
