#!/bin/bash
# Creates the role of the nodes when a database is created: stagedoor_app for stagedoor, keyring_app for keyring. It owns
# nothing, so row-level security applies to it (docs/operations/database-roles.md). `stagedoord migrate` grants it what it
# needs.
set -euo pipefail
psql -X -v ON_ERROR_STOP=1 -v role="${POSTGRES_DB}_app" -v password="$APP_PASSWORD" -U "$POSTGRES_USER" -d "$POSTGRES_DB" <<'SQL'
CREATE ROLE :"role" LOGIN PASSWORD :'password';
SQL
