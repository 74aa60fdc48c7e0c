-- name: Prepare :exec
INSERT INTO lease_slot (kind, slot) SELECT @kind::text, n FROM generate_series(0, @last::integer) AS n ON CONFLICT (kind, slot) DO NOTHING;

-- name: Beat :one
-- The SELECT does not see what the CTEs write. It does not need to: it excludes this node's own row.
-- It begins a new generation if the database was restored or failed over.
WITH beat AS (
    INSERT INTO lease_node (kind, holder, until, leaving) VALUES (@kind, @holder, now() + @ttl::interval, @leaving)
    ON CONFLICT (kind, holder) DO UPDATE SET until = excluded.until, leaving = excluded.leaving
), forget AS (
    DELETE FROM lease_node WHERE kind = @kind AND until < now() - interval '1 hour' AND holder <> @holder
)
SELECT ARRAY(SELECT n.holder FROM lease_node n WHERE n.kind = @kind AND n.until > now() - @lenience::interval AND n.holder <> @holder AND NOT n.leaving)::text[] AS others,
       ARRAY(SELECT s.slot FROM lease_slot s WHERE s.kind = @kind AND s.holder = @holder ORDER BY s.slot)::integer[] AS slots,
       ARRAY(SELECT s.epoch FROM lease_slot s WHERE s.kind = @kind AND s.holder = @holder ORDER BY s.slot)::bigint[] AS epochs,
       begin_generation()::bigint AS first_epoch;

-- name: Take :many
-- Takes slots that are free, whose holder's lease has expired, or that this node holds without knowing it.
-- Skips rows that another node is taking at the moment instead of waiting for them.
-- The epochs of a generation are higher than all of earlier generations, also than those that were lost with the end of theirs.
UPDATE lease_slot SET holder = @holder, epoch = GREATEST(epoch + 1, (SELECT first_epoch()))
WHERE (SELECT first_epoch()) IS NOT NULL AND lease_slot.kind = @kind AND lease_slot.slot = ANY (ARRAY(
    SELECT s.slot FROM lease_slot s
    WHERE s.kind = @kind AND s.slot = ANY (@slots::integer[])
      AND (s.holder IN ('', @holder) OR NOT EXISTS (SELECT FROM lease_node n WHERE n.kind = s.kind AND n.holder = s.holder AND n.until > now()))
    FOR UPDATE SKIP LOCKED
))
RETURNING lease_slot.slot, lease_slot.epoch;

-- name: Release :exec
UPDATE lease_slot SET holder = ''
WHERE kind = @kind AND holder = @holder AND slot = ANY (@slots::integer[]) AND epoch = (@epochs::bigint[])[array_position(@slots::integer[], slot)];

-- name: Leave :exec
DELETE FROM lease_node WHERE kind = @kind AND holder = @holder;

-- name: AllNodes :many
SELECT kind, holder, until, leaving, (until > now())::boolean AS live FROM lease_node ORDER BY kind, holder;

-- name: AllSlots :many
SELECT kind, slot, holder, epoch FROM lease_slot ORDER BY kind, slot;
