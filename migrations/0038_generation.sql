-- +goose Up

-- owner: lease
-- A generation is a stretch of the database's history in which transaction numbers only grow. It ends when the database is restored into
-- another cluster, recovered to a point in time, or taken over by a replica: the server then counts from another number, and what it
-- handed out before may be gone. The newest row is the current generation, as long as its cluster is the one that the server reports.
CREATE TABLE database_generation (
    number   integer PRIMARY KEY,
    -- A random number from 1 to 2^24-2. It tells the generation from another one with the same number, which exists if an older backup is
    -- restored. Cursors and the epochs of leases contain it. It is 0 in the first generation.
    tag      integer NOT NULL UNIQUE,
    -- The server that the generation runs on. Another value, such as '', ends it.
    cluster  text NOT NULL,
    began_at timestamptz NOT NULL DEFAULT now()
);

-- The functions are in PL/pgSQL because it keeps their plans: in SQL they would be planned for each statement that calls them, which takes
-- ten times as long.

-- The cluster and its timeline: a restored dump has another cluster, a promoted replica and a recovered backup another timeline. The
-- timeline in the control file is that of the last checkpoint, which comes late; the name of the current WAL file has it immediately.
-- +goose StatementBegin
CREATE FUNCTION generation_cluster() RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN (pg_control_system()).system_identifier::text || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8);
END
$$;
-- +goose StatementEnd

-- A dump of an older version that was restored into a fresh cluster has events with higher numbers than the cluster has reached.
INSERT INTO database_generation (number, tag, cluster)
SELECT 0, 0, CASE WHEN EXISTS (
    SELECT FROM org
    WHERE EXISTS (SELECT FROM event WHERE event.org_id = org.id AND event.tx >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint)
) THEN '' ELSE generation_cluster() END;

-- The first epoch of leases in the current generation: its number, its tag, and 24 bits in which the epochs of a slot count. Null if the
-- generation has ended and the next one has not begun. The holder of a lease with an epoch of an earlier generation remembers what the
-- database may have lost, and must not write.
-- +goose StatementBegin
CREATE FUNCTION first_epoch() RETURNS bigint LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    newest record;
BEGIN
    SELECT number, tag, cluster INTO newest FROM database_generation ORDER BY number DESC LIMIT 1;
    IF newest.cluster = generation_cluster() THEN
        RETURN (newest.number::bigint << 48) + (newest.tag::bigint << 24);
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- Begins the next generation if the last has ended, and returns the first epoch of the current one.
-- +goose StatementBegin
CREATE FUNCTION begin_generation() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    IF first_epoch() IS NULL THEN
        INSERT INTO database_generation (number, tag, cluster)
        SELECT max(number) + 1, 1 + floor(random() * 16777214)::integer, generation_cluster() FROM database_generation
        ON CONFLICT (number) DO NOTHING;
    END IF;
    RETURN first_epoch();
END
$$;
-- +goose StatementEnd

-- The tags of all generations, in their order.
CREATE FUNCTION generation_tags() RETURNS integer [] LANGUAGE sql STABLE
RETURN (SELECT array_agg(g.tag ORDER BY g.number) FROM database_generation g);

-- The position of events that the current transaction stores: the generation, and in the lower 48 bits the transaction's number. Null if
-- the generation has ended.
CREATE FUNCTION event_tx(first_epoch bigint) RETURNS bigint LANGUAGE sql STABLE
RETURN (first_epoch >> 48 << 48) + pg_current_xact_id()::text::bigint;

-- Events before it can be listed, because no transaction that is still running can store one before it. Nothing is added to a generation
-- that has ended.
-- +goose StatementBegin
CREATE FUNCTION event_horizon() RETURNS bigint LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    newest record;
BEGIN
    SELECT number, cluster INTO newest FROM database_generation ORDER BY number DESC LIMIT 1;
    IF newest.cluster = generation_cluster() THEN
        RETURN (newest.number::bigint << 48) + pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
    END IF;
    RETURN ((newest.number + 1)::bigint << 48) - 1;
END
$$;
-- +goose StatementEnd

-- Nodes write the column themselves. The default is for nodes of older versions, which do not.
ALTER TABLE event ALTER COLUMN tx SET DEFAULT event_tx(first_epoch());
