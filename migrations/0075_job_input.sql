-- +goose Up

-- What a job works on, if that is more than its parameters: the name and sizes of an object, and the hash of its content.
-- awaits means that it is still to be uploaded.
ALTER TABLE job ADD COLUMN input jsonb;
ALTER TABLE job ADD COLUMN awaits boolean NOT NULL DEFAULT false;
