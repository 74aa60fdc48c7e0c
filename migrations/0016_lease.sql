-- +goose Up

-- owner: lease
-- One row per node and kind of work, renewed every few seconds. A node whose row is over holds nothing.
CREATE TABLE lease_node (
    kind    text NOT NULL,
    holder  text NOT NULL,
    -- By this database's clock; no other is compared with it.
    until   timestamptz NOT NULL,
    -- It is about to stop: it still holds what it has not given up, and is not to be given more.
    leaving boolean NOT NULL,
    PRIMARY KEY (kind, holder)
) WITH (
    fillfactor = 50
);

-- owner: lease
-- Who has a slot, and for the how-manieth time it has changed hands. Rows stay for ever, so that an epoch never comes again.
CREATE TABLE lease_slot (
    kind   text NOT NULL,
    slot   integer NOT NULL,
    -- Empty if nobody has it.
    holder text NOT NULL DEFAULT '',
    epoch  bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, slot)
) WITH (
    fillfactor = 50
);
