-- +goose Up

-- Whether the node could take over the traffic of another one, by its own checks.
ALTER TABLE node ADD COLUMN healthy boolean NOT NULL DEFAULT true;
