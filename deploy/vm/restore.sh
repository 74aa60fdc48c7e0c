# shellcheck shell=bash
# stagedoor-vm restore: see usage_restore.

usage_restore() {
  cat >&2 <<'END'
usage: stagedoor-vm restore [--identity FILE] MAIN KEYRING
Replaces both databases by a backup (…/main/STAMP.main and …/keyring/STAMP.keyring). The node keeps running until the
copies are complete and every key in them was opened; if that fails, nothing is changed. The databases of before are kept
under other names.
  --identity FILE   the age identity (AGE-SECRET-KEY-…) for backups that are encrypted
END
  exit 2
}

restore() {
  local identity='' dumps=() file stamp name opened main_name keyring_name
  while [ $# -gt 0 ]; do
    case $1 in
      --identity)
        [ $# -ge 2 ] || usage_restore
        identity=$2
        shift 2
        ;;
      -*) usage_restore ;;
      *)
        dumps+=("$1")
        shift
        ;;
    esac
  done
  [ ${#dumps[@]} = 2 ] || usage_restore
  main_owner=$(value "$owners" STAGEDOOR_MIGRATION_URL) keyring_owner=$(value "$owners" STAGEDOOR_KEYRING_MIGRATION_URL)
  main_name=$(database_of "$main_owner") keyring_name=$(database_of "$keyring_owner")
  umask 077
  lock_backups
  work=$(mktemp -d "$backups/new.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  for file in "${dumps[@]}"; do
    [ -r "$file" ] || die "$file cannot be read"
    case $file in
      *.age)
        [ -n "$identity" ] || die "$file is encrypted: name the identity with --identity FILE"
        age --decrypt --identity "$identity" --output "$work/$(basename "$file" .age)" "$file" || die "$file cannot be decrypted"
        ;;
      *) cp "$file" "$work/" ;;
    esac
  done
  dumps=("$work/$(basename "${dumps[0]}" .age)" "$work/$(basename "${dumps[1]}" .age)")
  pg_restore --list "${dumps[1]}" | grep -q 'TABLE DATA keyring' || die "the second file is not a dump of the keyring"
  say "restoring into new databases"
  opened=$(restore_and_verify restored "${dumps[@]}") || {
    drop_copies restored
    die "the backup was not restored, and nothing is changed. If keys do not open, $keyset is not the key of this backup"
  }
  say "$opened"

  stamp=$(date -u +%Y%m%dt%H%M%S)
  systemctl stop "$node"
  for name in "$main_name" "$keyring_name"; do
    sql postgres <<SQL
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname IN ('$name', '${name}_restored') \g /dev/null
SELECT format('ALTER DATABASE %I RENAME TO %I', '$name', '${name}_before_$stamp') FROM pg_database WHERE datname = '$name' \gexec
ALTER DATABASE ${name}_restored RENAME TO $name;
SQL
  done
  # Counters and cached keys are those of before; they are rebuilt.
  valkey FLUSHALL >/dev/null
  # The event log continues a history that the database does not have. Without it, the node fetches from the platforms
  # everything after the restored state.
  systemctl stop nats-server
  find /var/lib/stagedoor-nats -mindepth 1 -delete
  systemctl start nats-server
  wait_for 60 nats_answers || die "NATS does not answer; to see why: journalctl -u nats-server -n 20"
  systemctl start "$node" || die "the node does not become ready; to see why: journalctl -u $node -n 20"
  say "the node runs on the restored databases"
  say "next: revoke again the keys that were revoked since the backup (docs/operations/backup-and-restore.md)"
  say "the databases of before are ${main_name}_before_$stamp and ${keyring_name}_before_$stamp; to delete them:"
  say "  sudo -u postgres dropdb ${main_name}_before_$stamp; sudo -u postgres dropdb ${keyring_name}_before_$stamp"
}
