-- +goose Up

-- What the caller named of proxy_country, label, metadata and remember_credentials. A reconnect changes these and keeps the rest.
ALTER TABLE attempt ADD COLUMN named text[] NOT NULL DEFAULT '{}';
