# shellcheck shell=bash
# stagedoor-vm backup: see usage_backup.

usage_backup() {
  cat >&2 <<'END'
usage: stagedoor-vm backup
Backs up the keyring, the main database and the settings into /var/backups/stagedoor, a folder each. The key that encrypts
all others is not in it: keep a copy of /var/lib/stagedoor/keyset.json in another place.

Before a dump is kept, it is restored into another database, and every key in it is opened.

/etc/stagedoor/vm.conf may set:
  BACKUP_RECIPIENT   an age public key (age1…); backups are encrypted for it
  BACKUP_DIR         another folder
  BACKUP_KEEP_DAYS   days to keep dumps of the main database and settings. Default: 30. Dumps of the keyring are always
                     deleted after 7 days, so that what was deleted cannot come back
  BACKUP_VERIFY      restore (default), or list to read only the table of contents, if the disk has no room for a copy
  BACKUP_COPY        a program that copies the backup to another machine; its arguments are the three new files
END
  exit 2
}

backup() {
  [ $# = 0 ] || usage_backup
  local vm=$etc/vm.conf recipient keep verify copy stamp part files=() what=''
  recipient=$(value "$vm" BACKUP_RECIPIENT) keep=$(value "$vm" BACKUP_KEEP_DAYS) verify=$(value "$vm" BACKUP_VERIFY) copy=$(value "$vm" BACKUP_COPY)
  keep=${keep:-30} verify=${verify:-restore}
  [[ $keep =~ ^[1-9][0-9]*$ ]] || die "BACKUP_KEEP_DAYS is $keep: use a number of days"
  case $verify in restore | list) ;; *) die "BACKUP_VERIFY is $verify: use restore or list" ;; esac
  umask 077
  lock_backups
  mkdir -p "$backups"/{main,keyring,settings}
  # Whatever happens below, deleted data must not stay longer than promised.
  find "$backups/keyring" -type f -mmin +$((7 * 24 * 60)) -delete

  rm -rf "$backups"/new.*
  work=$(mktemp -d "$backups/new.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  stamp=$(date -u +%Y%m%dT%H%M%SZ)
  main_owner=$(value "$owners" STAGEDOOR_MIGRATION_URL) keyring_owner=$(value "$owners" STAGEDOOR_KEYRING_MIGRATION_URL)
  # The keyring first: an account without a key must be connected again, but a key without an account does no harm.
  dump "$keyring_owner" "$work/keyring"
  dump "$main_owner" "$work/main"
  tar -C / --exclude=etc/stagedoor/first-operator -cf "$work/settings" etc/stagedoor
  if [ "$verify" = restore ]; then
    what=$(restore_and_verify verify "$work/main" "$work/keyring")
    drop_copies verify
  else
    pg_restore --list "$work/keyring" >/dev/null
    what="$(pg_restore --list "$work/main" | grep -c 'TABLE DATA') tables listed"
  fi
  for part in main keyring settings; do
    if [ -n "$recipient" ]; then
      age --encrypt --recipient "$recipient" --output "$work/$part.age" "$work/$part"
      rm "$work/$part"
      files+=("$backups/$part/$stamp.$part.age")
      mv "$work/$part.age" "${files[-1]}"
    else
      files+=("$backups/$part/$stamp.$part")
      mv "$work/$part" "${files[-1]}"
    fi
  done
  sync -f "$backups"
  find "$backups/main" "$backups/settings" -type f -mmin +$((keep * 24 * 60)) -delete
  if [ -n "$copy" ]; then "$copy" "${files[@]}" || die "$copy failed; the backup is in $backups only"; fi
  {
    printf 'STAMP=%s\n' "$stamp"
    printf 'KEYSET=%s\n' "$(keyset_fingerprint)"
  } | write_file "$backups/last" 600
  say "backed up and verified: $what"
  for part in "${files[@]}"; do say "  $part ($(size_of "$part"))"; done
}

# lock_backups: sets backups to the folder of the backups, and lets no other backup or restore run.
lock_backups() {
  backups=$(value "$etc/vm.conf" BACKUP_DIR)
  backups=${backups:-/var/backups/stagedoor}
  mkdir -p "$backups"
  exec 9>"$backups/lock"
  flock -n 9 || die "another backup or restore is running"
}

keyset_fingerprint() { sha256sum "$keyset" | cut -c 1-16; }

# with_password URL COMMAND…: runs a command of PostgreSQL on a database, with the password in the environment, because ps
# shows arguments.
with_password() { PGPASSWORD=$(password_of "$1") "${@:2}"; }
address_of() { sed -E 's,^([^:]+://[^:@]*):[^@]*@,\1@,' <<<"$1"; } # URL: the address without the password

dump() { # URL FILE
  with_password "$1" pg_dump --format=custom --dbname="$(address_of "$1")" --file="$2" || die "pg_dump of $(database_of "$1") failed"
}

# restore_and_verify SUFFIX MAIN KEYRING: restores dumps into databases next to the present ones, brings them up to date,
# and opens every key. It prints what was opened.
restore_and_verify() {
  local main keys
  drop_copies "$1"
  main=$(with_database "$main_owner" "$(database_of "$main_owner")_$1")
  keys=$(with_database "$keyring_owner" "$(database_of "$keyring_owner")_$1")
  copy_from "$main" "$2"
  copy_from "$keys" "$3"
  (
    read_settings
    DATABASE_URL=$(with_database "$DATABASE_URL" "$(database_of "$main")")
    STAGEDOOR_KEYRING_URL=$(with_database "$STAGEDOOR_KEYRING_URL" "$(database_of "$keys")")
    STAGEDOOR_MIGRATION_URL=$main STAGEDOOR_KEYRING_MIGRATION_URL=$keys stagedoord migrate >/dev/null || die "the copy cannot be migrated"
    [ "$(with_password "$DATABASE_URL" psql -XAtq -d "$(address_of "$DATABASE_URL")" -c "SELECT row_security_active('org')")" = t ] ||
      die "row-level security does not apply to the copy"
    setpriv --reuid=stagedoor --regid=stagedoor --init-groups -- stagedoord seal verify
  )
}
copy_from() { # URL FILE
  create_database "$(database_of "$1")" "$(user_of "$1")"
  with_password "$1" pg_restore --dbname="$(address_of "$1")" --exit-on-error --no-owner --jobs=2 "$2" || die "$2 cannot be restored"
}
drop_copies() { # SUFFIX
  sql postgres <<SQL
SET client_min_messages = warning;
DROP DATABASE IF EXISTS $(database_of "$main_owner")_$1 WITH (FORCE);
DROP DATABASE IF EXISTS $(database_of "$keyring_owner")_$1 WITH (FORCE);
SQL
}
