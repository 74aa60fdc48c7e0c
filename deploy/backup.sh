#!/bin/bash
# Backs up the databases of deploy/compose.yaml, in its service backup:
#   backup.sh nightly         every day at 02:30 UTC
#   backup.sh once            now
#   backup.sh restore STAMP   restores both databases; the node must be stopped (docs/operations/deploy.md)
# MAIN_URL and KEYRING_URL are the addresses of the owners, BACKUPS is the folder. A dump is kept only after it was
# restored into another database. Dumps of the keyring are deleted after 7 days, so that what was deleted cannot come back;
# the others after BACKUP_KEEP_DAYS.
set -euo pipefail
shopt -s inherit_errexit
umask 077
BACKUPS=${BACKUPS:-/backups}
keep=${BACKUP_KEEP_DAYS:-30}

database_of() { sed -E 's,^[^:]+://[^/]*/([^?]*).*$,\1,' <<<"$1"; }
on_database() { sed -E "s,^([^:]+://[^/]*/)[^?]*,\1$2," <<<"$1"; } # URL NAME
sql() { psql -XAtq -v ON_ERROR_STOP=1 -d "$(on_database "$1" postgres)" -c "SET client_min_messages = warning" -c "$2"; } # URL STATEMENT

# restore_as SUFFIX URL DUMP: restores a dump into a database of its own, and prints the number of its tables.
restore_as() {
  local name
  name=$(database_of "$2")_$1
  sql "$2" "DROP DATABASE IF EXISTS $name WITH (FORCE)"
  sql "$2" "CREATE DATABASE $name TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C.UTF-8'"
  pg_restore --dbname="$(on_database "$2" "$name")" --exit-on-error --no-owner "$3" || exit 1
  psql -XAt -d "$(on_database "$2" "$name")" -c "SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema')"
}

backup() {
  local stamp part url tables
  mkdir -p "$BACKUPS"/{main,keyring}
  # Whatever happens below, deleted data must not stay longer than promised.
  find "$BACKUPS/keyring" -type f -mmin +$((7 * 24 * 60)) -delete
  rm -f "$BACKUPS"/*/new
  stamp=$(date -u +%Y%m%dT%H%M%SZ)
  # The keyring first: an account without a key must be connected again, but a key without an account does no harm.
  for part in keyring main; do
    url=$MAIN_URL
    if [ $part = keyring ]; then url=$KEYRING_URL; fi
    pg_dump --format=custom --dbname="$url" --file="$BACKUPS/$part/new"
    tables=$(restore_as verify "$url" "$BACKUPS/$part/new")
    sql "$url" "DROP DATABASE $(database_of "$url")_verify WITH (FORCE)"
    echo "$part: dumped and restored $tables tables"
  done
  mv "$BACKUPS/keyring/new" "$BACKUPS/keyring/$stamp"
  mv "$BACKUPS/main/new" "$BACKUPS/main/$stamp"
  find "$BACKUPS/main" -type f -mmin +$((keep * 24 * 60)) -delete
  touch "$BACKUPS/last"
  echo "backed up: $stamp"
}

restore() { # STAMP
  local part url name old
  old=$(date -u +%Y%m%dt%H%M%S)
  for part in keyring main; do [ -r "$BACKUPS/$part/$1" ] || { echo "there is no backup $1 of $part" >&2; exit 1; }; done
  for part in keyring main; do
    url=$MAIN_URL
    if [ $part = keyring ]; then url=$KEYRING_URL; fi
    restore_as restored "$url" "$BACKUPS/$part/$1" >/dev/null
  done
  for url in "$KEYRING_URL" "$MAIN_URL"; do
    name=$(database_of "$url")
    sql "$url" "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '$name'" >/dev/null
    sql "$url" "ALTER DATABASE $name RENAME TO ${name}_before_$old"
    sql "$url" "ALTER DATABASE ${name}_restored RENAME TO $name"
  done
  echo "restored: $1; the databases of before are called …_before_$old"
}

case ${1:-} in
  once) backup ;;
  restore) restore "${2:?usage: backup.sh restore STAMP}" ;;
  nightly)
    trap 'exit 0' TERM INT
    while :; do
      at=$(date -u -d 'tomorrow 02:30' +%s)
      today=$(date -u -d 'today 02:30' +%s)
      if [ "$today" -gt "$(date +%s)" ]; then at=$today; fi
      sleep $((at - $(date +%s))) &
      wait $!
      # A failure must not end the container; it is in the log, and the health check reports it.
      "$BASH" "$0" once || echo "the backup failed" >&2
    done
    ;;
  *)
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
