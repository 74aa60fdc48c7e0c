-- +goose Up

-- The contexts of the traces that the rows belong to; null if they are not traced. Rows live for seconds.
ALTER TABLE outbox ADD COLUMN traceparent text;
ALTER TABLE eventlog_entry ADD COLUMN traces text[];
