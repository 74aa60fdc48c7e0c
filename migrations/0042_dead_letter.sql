-- +goose Up

-- owner: event
-- Records of the event log that could not be stored, so that the others go on. An operator looks at them and has them stored again, or
-- deletes them. Org and source are null if the record could not be read.
CREATE TABLE event_dead_letter (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT now(),
    bucket   smallint NOT NULL,
    org_id   text,
    source   text,
    kind     text,
    reason   text NOT NULL,
    record   bytea NOT NULL,
    -- The holder of the bucket shall store it again.
    requeued boolean NOT NULL DEFAULT false
);

CREATE INDEX event_dead_letter_source ON event_dead_letter (source);
CREATE INDEX event_dead_letter_requeued ON event_dead_letter (bucket) WHERE requeued;
