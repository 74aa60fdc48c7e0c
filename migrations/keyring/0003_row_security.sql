-- +goose Up

-- The same policies as those of the main database (0055_row_security.sql).
-- +goose StatementBegin
DO $$
DECLARE
    tenant regclass;
BEGIN
    FOR tenant IN
        SELECT c.oid FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace = 'keyring'::regnamespace AND c.relkind = 'r' AND a.attname = 'org_id' AND NOT a.attisdropped
    LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', tenant);
        EXECUTE format(
            'CREATE POLICY org ON %s USING (org_id = current_setting(''stagedoor.org'', true) OR current_setting(''stagedoor.org'', true) = ''*'')',
            tenant
        );
    END LOOP;
END
$$;
-- +goose StatementEnd
