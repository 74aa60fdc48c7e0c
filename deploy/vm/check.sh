# shellcheck shell=bash
# stagedoor-vm check: checks what the setup has configured, and what can break later. Each line is ok, warn or FAIL; the
# last two say what to do.

failures=0 warnings=0
ok() { printf 'ok    %s\n' "$*"; }
warn() {
  printf 'warn  %s\n' "$*"
  warnings=$((warnings + 1))
}
fail() {
  printf 'FAIL  %s\n' "$*"
  failures=$((failures + 1))
}

check() {
  [ $# = 0 ] || { say "usage: stagedoor-vm check" >&2 && exit 2; }
  local vm=$etc/vm.conf
  [ -e "$settings" ] && [ -e "$vm" ] || die "this machine is not set up; run: stagedoor-vm setup"
  sandbox=$(value "$vm" SANDBOX) login=$(value "$vm" LOGIN)
  check_units
  check_postgres
  check_valkey
  check_nats
  check_settings
  check_node
  check_public
  check_ports
  check_keys
  check_backups
  check_disk
  check_clock
  if [ $failures -gt 0 ]; then
    say "$failures problems, $warnings warnings"
    exit 1
  fi
  say "no problems, $warnings warnings"
}

check_units() {
  local unit units=(postgresql valkey-server nats-server caddy "$node" stagedoor-backup.timer) failed
  case $(value "$settings" STAGEDOOR_EGRESS) in *@127.0.0.1:3128*) units+=(stagedoor-egress) ;; esac
  if [ "$sandbox" = on ]; then units+=(stagedoor-sandbox); fi
  if [ -n "$login" ]; then units+=(stagedoor-dex); fi
  for unit in "${units[@]}"; do
    if ! systemctl --quiet is-active "$unit"; then
      fail "$unit is not running: systemctl start $unit; journalctl -u $unit -n 20"
    elif ! systemctl --quiet is-enabled "$unit"; then
      fail "$unit does not start with the machine: systemctl enable $unit"
    fi
  done
  failed=$(systemctl list-units --failed --plain --no-legend | awk '{ printf " %s", $1 }')
  if [ -n "$failed" ]; then
    fail "failed units:$failed: journalctl -u UNIT -n 20; after the repair: systemctl reset-failed"
  else
    ok "units: ${units[*]}"
  fi
}

check_postgres() {
  local settings_of_server role problems
  settings_of_server=$(sql postgres -c "SELECT string_agg(name, ' ') FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting <> 'on'" 2>&1) ||
    { fail "PostgreSQL does not answer: journalctl -u 'postgresql@*' -n 20" && return; }
  if [ -n "$settings_of_server" ]; then
    fail "PostgreSQL may lose confirmed changes: set $settings_of_server to on"
    return
  fi
  for role in "$(user_of "$(value "$settings" DATABASE_URL)")" "$(user_of "$(value "$settings" STAGEDOOR_KEYRING_URL)")"; do
    problems=$(sql postgres -c "SELECT count(*) FROM pg_roles WHERE rolname = '$role' AND NOT rolsuper AND NOT rolbypassrls AND oid NOT IN (SELECT datdba FROM pg_database)")
    [ "$problems" = 1 ] || fail "the node's role $role must own nothing and be no superuser (docs/operations/database-roles.md)"
  done
  ok "PostgreSQL $(sql postgres -c 'SHOW server_version' | cut -d' ' -f1): a confirmed change survives a crash"
}

check_valkey() {
  local saved
  if ! valkey_answers; then
    fail "Valkey does not answer: journalctl -u valkey-server -n 20"
    return
  fi
  saved=$(valkey CONFIG GET save | sed -n 2p)$(valkey CONFIG GET appendonly | sed -n 2p)
  if [ "$saved" = no ]; then
    ok "Valkey keeps nothing on disk"
  else
    fail "Valkey keeps counters on disk, and old ones are worse than none: stagedoor-vm setup"
  fi
}

check_nats() {
  local config
  if ! nats_answers; then
    fail "NATS does not answer: journalctl -u nats-server -n 20"
    return
  fi
  config=$(curl -fsS --noproxy '*' -m 5 'http://127.0.0.1:8222/jsz?config=true' | jq -r '.config.sync_always // false')
  if [ "$config" = true ]; then
    ok "NATS acknowledges an event only after it is on disk"
  else
    fail "NATS may lose acknowledged events: sync_interval must be always: stagedoor-vm setup"
  fi
}

check_settings() {
  local problem mode file
  problem=$(as_node config 2>&1 >/dev/null) || { fail "$settings: $problem" && return; }
  for file in "$settings" "$owners" "$etc/vm.conf" "$etc/nats.env"; do
    mode=$(stat -c '%U %a' "$file")
    if [ "$mode" != 'root 600' ]; then fail "$file can be read by others: chown root: $file; chmod 600 $file"; fi
  done
  ok "settings: $settings"
}

check_node() {
  local answer bad
  answer=$(curl -sS --noproxy '*' -m 10 http://127.0.0.1:8081/readyz 2>&1) || { fail "the node does not answer: journalctl -u $node -n 20" && return; }
  bad=$(jq -r '.checks | to_entries | map(select(.value.state != "up") | "\(.key) is \(.value.state)") | join(", ")' <<<"$answer")
  if [ -n "$bad" ]; then
    fail "the node: $bad: curl -s http://127.0.0.1:8081/readyz; journalctl -u $node -n 20"
  else
    ok "node: $(jq -r '.checks | keys | join(", ")' <<<"$answer") up"
  fi
}

check_public() {
  local url out end days
  url=$(value "$settings" STAGEDOOR_PUBLIC_URL)
  if ! out=$(curl -sS -m 20 -o /dev/null "$url/v1/openapi.json" 2>&1); then
    fail "$url cannot be reached from this machine: $out: check its DNS record and the ports 80 and 443; journalctl -u caddy -n 20"
    return
  fi
  out=$(curl -s -m 20 -o /dev/null -w '%{http_code}\n%{certs}' "$url/v1/openapi.json")
  if [ "${out%%$'\n'*}" != 200 ]; then
    fail "$url/v1/openapi.json answers ${out%%$'\n'*}: journalctl -u caddy -u $node -n 20"
    return
  fi
  end=$(sed -nE 's/^Expire date: ?//Ip' <<<"$out" | head -n 1)
  days=$((($(date -d "$end" +%s) - $(date +%s)) / 86400))
  # Certificates of Caddy's own authority are valid for 12 hours.
  if [ "$(value "$etc/vm.conf" CERTIFICATES)" = public ] && [ $days -lt 14 ]; then
    fail "the certificate of $url ends in $days days and was not renewed: journalctl -u caddy | grep -i error"
  else
    ok "$url answers, certificate until $end"
  fi
}

# Everything but Caddy and the login of administrators listens on this machine only.
check_ports() {
  local port open=''
  for port in 8080 8081 5432 6379 4222 8222 3128 18200 5556 2019; do
    if ss -Hltn "sport = :$port" | awk '{ print $4 }' | grep -qvE '^(127\.[0-9.]+|\[::1\]|\[::ffff:127\.[0-9.]+\]):'; then open+=" $port"; fi
  done
  if [ -n "$open" ]; then
    fail "these ports can be reached from outside:$open: set their servers to 127.0.0.1"
  else
    ok "only Caddy can be reached from outside"
  fi
}

check_keys() {
  local mode opened
  mode=$(stat -c '%U %a' "$keyset" 2>/dev/null) || { fail "$keyset is missing: put your copy there" && return; }
  if [ "$mode" != 'stagedoor 600' ]; then fail "$keyset: chown stagedoor: $keyset; chmod 600 $keyset"; fi
  if ! opened=$(as_node seal verify 2>&1); then
    fail "not every key opens: stagedoor-vm seal verify: ${opened##*$'\n'}"
  else
    ok "keys: $opened (fingerprint of $keyset: $(keyset_fingerprint); compare it with that of your copy)"
  fi
}

check_backups() {
  local backups last age_hours
  backups=$(value "$etc/vm.conf" BACKUP_DIR)
  last=${backups:-/var/backups/stagedoor}/last
  if [ ! -e "$last" ]; then
    warn "there is no backup yet: stagedoor-vm backup"
    return
  fi
  age_hours=$((($(date +%s) - $(stat -c %Y "$last")) / 3600))
  if [ $age_hours -gt 26 ]; then
    fail "the last verified backup is $age_hours hours old: journalctl -u stagedoor-backup -n 20"
  elif [ "$(value "$last" KEYSET)" != "$(keyset_fingerprint)" ]; then
    warn "$keyset has changed since the last backup: copy it to your safe place, then run: stagedoor-vm backup"
  else
    ok "last verified backup: $(value "$last" STAMP)"
  fi
  [ -n "$(value "$etc/vm.conf" BACKUP_RECIPIENT)" ] || warn "backups are not encrypted: stagedoor-vm setup --backup-recipient age1…"
  [ -n "$(value "$etc/vm.conf" BACKUP_COPY)" ] || warn "backups stay on this machine: set BACKUP_COPY in $etc/vm.conf"
}

check_disk() {
  local path used full=''
  for path in /var/lib/postgresql /var/lib/stagedoor-nats /var/backups /var/log; do
    used=$(df --output=pcent "$path" 2>/dev/null | tail -n 1 | tr -dc 0-9)
    if [ "${used:-0}" -ge 85 ]; then full+=" $path ($used %)"; fi
  done
  if [ -n "$full" ]; then fail "the disk is almost full:$full: enlarge it, or delete what is not needed"; else ok "disk: less than 85 % used"; fi
}

check_clock() {
  case $(timedatectl show -p NTPSynchronized --value 2>/dev/null) in
    yes) ok "the clock is synchronised" ;;
    *) warn "the clock is not synchronised: apt-get install systemd-timesyncd" ;;
  esac
}
