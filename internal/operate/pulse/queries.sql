-- name: AddMinute :execrows
INSERT INTO pulse_minute (at, node_name, counts) VALUES (@at, @node_name, @counts) ON CONFLICT DO NOTHING;

-- name: AddDay :exec
INSERT INTO pulse_day (day, objective, good, total)
SELECT @day, unnest(@objectives::text[]), unnest(@good::bigint[]), unnest(@total::bigint[])
ON CONFLICT (day, objective) DO UPDATE SET good = pulse_day.good + excluded.good, total = pulse_day.total + excluded.total;

-- name: Minutes :many
SELECT at, node_name, counts FROM pulse_minute WHERE at >= @since ORDER BY at, node_name;

-- name: Days :many
SELECT day, objective, good, total FROM pulse_day WHERE day >= @since ORDER BY day, objective;

-- name: TrimMinutes :exec
DELETE FROM pulse_minute WHERE at < @before;

-- name: TrimDays :exec
DELETE FROM pulse_day WHERE day < @before;
