-- +goose Up

-- Row-level security: a transaction sees the rows of the organisation in its setting stagedoor.org, of all organisations if that is '*',
-- and none if it is not set. It applies to the service's role, which owns nothing. The owner of the tables, who migrates them, sees all rows.
-- +goose StatementBegin
DO $$
DECLARE
    tenant record;
BEGIN
    FOR tenant IN
        SELECT c.oid::regclass AS name, quote_ident(a.attname) AS org, c.relkind = 'p' AS has_days
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
            AND NOT a.attisdropped AND (a.attname = 'org_id' OR a.attname = 'id' AND c.relname = 'org')
    LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', tenant.name);
        -- The forms differ only in cost (BenchmarkHotQueries). Daily tables are read many rows at a time: a subquery reads the
        -- setting once. Others are mostly read one row at a time: CASE is planned faster, because OR makes the planner look for indexes.
        EXECUTE format('CREATE POLICY org ON %s USING (', tenant.name) || replace(CASE
            WHEN tenant.has_days THEN format('%s = (SELECT current_org) OR (SELECT current_org) = ''*''', tenant.org)
            ELSE format('CASE WHEN %s = current_org THEN true ELSE current_org = ''*'' END', tenant.org)
        END, 'current_org', 'current_setting(''stagedoor.org'', true)') || ')';
    END LOOP;
END
$$;
-- +goose StatementEnd

-- The daily partitions are created and dropped by these functions, because only the owner of a table may do so. A role that may insert
-- into the table may insert into the partition, since COPY does not work on a table with row-level security. It may not read the
-- partition, which has no policy.
-- +goose StatementBegin
CREATE FUNCTION add_day(whole text, day timestamptz) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    part text := whole || to_char(day AT TIME ZONE 'UTC', '_YYYYMMDD');
    writer record;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = to_regclass(whole) AND c.relkind = 'p' AND pg_has_role(c.relowner, 'USAGE')) THEN
        RAISE EXCEPTION '% has no partitions', whole;
    END IF;
    -- Unlike CREATE TABLE … PARTITION OF, this blocks neither readers nor writers of the whole table.
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', part, whole);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', whole, part, day, day + interval '24 hours');
    FOR writer IN
        SELECT acl.grantee::regrole AS name
        FROM pg_class c, aclexplode(c.relacl) acl
        WHERE c.oid = whole::regclass AND acl.privilege_type = 'INSERT' AND acl.grantee NOT IN (0, c.relowner)
    LOOP
        EXECUTE format('GRANT INSERT ON %I TO %s', part, writer.name);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION drop_day(whole text, day timestamptz) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    part text := whole || to_char(day AT TIME ZONE 'UTC', '_YYYYMMDD');
BEGIN
    IF EXISTS (SELECT FROM pg_inherits WHERE inhrelid = to_regclass(part) AND inhparent = to_regclass(whole)) THEN
        EXECUTE format('DROP TABLE %I', part);
    END IF;
END
$$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION add_day(text, timestamptz), drop_day(text, timestamptz) FROM PUBLIC;
