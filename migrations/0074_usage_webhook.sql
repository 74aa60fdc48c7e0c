-- +goose Up

-- The day that the usage webhook sends, and the last organisation of which it has sent that day. It has one row.
CREATE TABLE usage_webhook (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    day       timestamptz NOT NULL,
    after_org text NOT NULL
);
