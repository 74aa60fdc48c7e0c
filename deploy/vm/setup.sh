# shellcheck shell=bash
# stagedoor-vm setup: see usage_setup.

usage_setup() {
  cat >&2 <<'END'
usage: stagedoor-vm setup --domain HOST [OPTION…]
Configures PostgreSQL, Valkey, NATS, Caddy and the node on this machine, and starts them. Run it again to change an option:
options that are not given keep their value, and no secret is replaced.
  --domain HOST               the public name of the API, such as api.example.com
  --email ADDRESS             gets Let's Encrypt's warnings about certificates
  --certificates internal     certificates of Caddy's own authority, for a machine without a public name. Default: public
  --region CODE               the region of this machine, as a two-letter code. Default: us
  --sandbox on|off            runs the sandbox platform, to try the API without a real creator. Default: off
  --login HOST                runs the identity provider Dex there, such as login.example.com, and uses it for
                              operators and for the dashboard
  --operator ADDRESS          the first operator, who signs in at --login; their password is printed once
  --backup-recipient KEY      encrypts backups for this age public key (age1…)
END
  exit 2
}

setup() {
  local vm=$etc/vm.conf name
  install -d -m 755 "$etc"
  # The options of earlier runs.
  touch "$vm"
  chmod 600 "$vm"
  while [ $# -gt 0 ]; do
    case $1 in
      --domain | --email | --certificates | --region | --sandbox | --login | --operator | --backup-recipient)
        name=${1#--}
        name=${name^^}
        [ $# -ge 2 ] || usage_setup
        [[ $2 =~ ^[A-Za-z0-9@._+-]*$ ]] || die "$1 $2 has characters that it must not have"
        set_value "$vm" "${name//-/_}" "$2"
        shift 2
        ;;
      *) usage_setup ;;
    esac
  done
  domain=$(value "$vm" DOMAIN)
  [ -n "$domain" ] || usage_setup
  set_default "$vm" CERTIFICATES public
  set_default "$vm" REGION us
  set_default "$vm" SANDBOX off
  email=$(value "$vm" EMAIL) certificates=$(value "$vm" CERTIFICATES) region=$(value "$vm" REGION)
  sandbox=$(value "$vm" SANDBOX) login=$(value "$vm" LOGIN) operator=$(value "$vm" OPERATOR)
  case $certificates in public | internal) ;; *) die "--certificates is $certificates: use public or internal" ;; esac
  case $sandbox in on | off) ;; *) die "--sandbox is $sandbox: use on or off" ;; esac
  [[ $region =~ ^[a-z]{2}$ ]] || die "--region is $region: use two lower-case letters, such as us"
  if [ -n "$login" ] && [ -z "$operator" ]; then die "--login needs --operator: the address of the first operator"; fi

  need_programs
  write_secrets
  start_engines
  create_databases
  write_proxy
  if [ -n "$login" ]; then set_up_dex; fi
  if [ ! -e "$keyset" ]; then
    install -d -o stagedoor -g stagedoor -m 700 "$(dirname "$keyset")"
    setpriv --reuid=stagedoor --regid=stagedoor --init-groups -- stagedoord seal keygen "$keyset" >/dev/null
  fi
  say "the key that encrypts all others: $keyset"
  as_node config >/dev/null # prints what is wrong
  systemctl start stagedoord-migrate || die "the migration failed; to see why: journalctl -u stagedoord-migrate -n 20"
  say "the schema is up to date"
  start_services
  say ""
  say "Stagedoor runs at https://$domain. Next: stagedoor-vm check"
}

need_programs() {
  local program missing='' found
  for program in stagedoord psql valkey-server nats-server caddy tinyproxy curl jq; do
    command -v "$program" >/dev/null || missing+=" $program"
  done
  [ -z "$missing" ] || die "these programs are not installed:$missing (docs/operations/one-vm.md, step 1)"
  if [ "$sandbox" = on ] && ! command -v sandboxd >/dev/null; then die "--sandbox on needs the program sandboxd (docs/operations/one-vm.md, step 1)"; fi
  if [ -n "$login" ] && ! command -v dex >/dev/null; then die "--login needs the program dex in /usr/local/bin (docs/operations/one-vm.md)"; fi
  found=$(nats-server --version | grep -oE '[0-9]+\.[0-9]+' | head -n 1)
  if [ "$(printf '%s\n' "$found" 2.10 | sort -V | head -n 1)" != 2.10 ]; then die "nats-server is $found; 2.10 or newer is needed"; fi
  id stagedoor >/dev/null 2>&1 || die "the user stagedoor does not exist; is the package stagedoord installed?"
}

# write_secrets: adds to the settings what is missing. It never changes a value that is set.
write_secrets() {
  touch "$settings" "$owners" "$etc/nats.env"
  chmod 600 "$settings" "$owners" "$etc/nats.env"
  local at=127.0.0.1:5432
  set_default "$settings" DATABASE_URL "postgres://stagedoor_app:$(random)@$at/stagedoor"
  set_default "$settings" STAGEDOOR_KEYRING_URL "postgres://keyring_app:$(random)@$at/keyring"
  set_default "$owners" STAGEDOOR_MIGRATION_URL "postgres://stagedoor:$(random)@$at/stagedoor"
  set_default "$owners" STAGEDOOR_KEYRING_MIGRATION_URL "postgres://keyring:$(random)@$at/keyring"
  set_default "$settings" REDIS_URL "redis://:$(random)@127.0.0.1:6379/0"
  # nats-server reads a value that starts with a digit as a number.
  set_default "$etc/nats.env" NATS_TOKEN "token_$(random)"
  set_value "$settings" NATS_URL "nats://$(value "$etc/nats.env" NATS_TOKEN)@127.0.0.1:4222"
  set_value "$settings" STAGEDOOR_PUBLIC_URL "https://$domain"
  set_default "$settings" STAGEDOOR_LISTEN 127.0.0.1:8080
  set_default "$settings" STAGEDOOR_INTERNAL_LISTEN 127.0.0.1:8081
  set_default "$settings" STAGEDOOR_TRUSTED_PROXIES 127.0.0.0/8
  set_default "$settings" STAGEDOOR_IP_HASH_KEY "$(random)"
  set_default "$settings" STAGEDOOR_KMS "local:$keyset"
  set_default "$settings" STAGEDOOR_OBJECTS /var/lib/stagedoor/objects
  if [ "$(value "$settings" STAGEDOOR_OBJECTS)" = /var/lib/stagedoor/objects ]; then
    install -d -o stagedoor -g stagedoor -m 700 /var/lib/stagedoor /var/lib/stagedoor/objects
  fi
  # A file, because it can be changed without a restart.
  if [ -z "$(value "$settings" STAGEDOOR_ADMIN_TOKEN)" ]; then
    set_default "$settings" STAGEDOOR_ADMIN_TOKEN_FILE "$etc/admin-token"
    if [ ! -s "$etc/admin-token" ]; then random | write_file "$etc/admin-token" 640 root:stagedoor; fi
  fi
  printf 'API_DOMAIN=%s\nCADDY_EMAIL=%s\nCADDY_CERTIFICATES=%s\nLOGIN_DOMAIN=%s\n' "$domain" "${email:+email $email}" \
    "$(if [ "$certificates" = internal ]; then echo local_certs; fi)" "$login" | changed "$etc/caddy.env" 600 root:root caddy
  say "settings: $settings"
}

# start_engines: installs their configuration, and restarts those whose configuration has changed.
start_engines() {
  local cluster version name
  # Lines are: version, name, port, state, owner, data directory, log.
  cluster=$(pg_lsclusters -h | awk '$3 == 5432')
  [ -n "$cluster" ] || die "there is no PostgreSQL on port 5432; to list the clusters: pg_lsclusters"
  read -r version name _ <<<"$cluster"
  [ "$version" -ge 15 ] || die "PostgreSQL $version is too old; 15 or newer is needed"
  install_changed postgresql.conf "/etc/postgresql/$version/$name/conf.d/stagedoor.conf" 644 root:root "postgresql@$version-$name"
  printf 'requirepass %s\n' "$(password_of "$(value "$settings" REDIS_URL)")" |
    changed /etc/valkey/stagedoor-password.conf 640 root:valkey valkey-server
  install_changed valkey.conf /etc/valkey/stagedoor.conf 644 root:root valkey-server
  install_changed nats.conf "$etc/nats.conf" 644 root:root nats-server
  install_changed systemd/valkey-server.conf /etc/systemd/system/valkey-server.service.d/stagedoor.conf 644 root:root valkey-server
  install_changed systemd/nats-server.conf /etc/systemd/system/nats-server.service.d/stagedoor.conf 644 root:root nats-server
  apply_changes postgresql@"$version-$name" valkey-server nats-server
  wait_for 60 superuser pg_isready -q || die "PostgreSQL does not answer; to see why: journalctl -u 'postgresql@*' -n 20"
  wait_for 60 valkey_answers || die "Valkey does not answer; to see why: journalctl -u valkey-server -n 20"
  wait_for 60 nats_answers || die "NATS does not answer; to see why: journalctl -u nats-server -n 20"
  say "running: PostgreSQL $version, $(valkey-server --version | grep -oE 'v=[0-9.]+' | sed 's/v=/Valkey /'), NATS $(nats-server --version | grep -oE '[0-9.]+$')"
}
# A file per unit that must be restarted, because its configuration has changed. It outlives a setup that is interrupted.
pending=/run/stagedoor-vm
# changed FILE MODE OWNER:GROUP UNIT: writes standard input to a file; if that changes it, the unit will be restarted.
changed() {
  local new
  new=$(cat; echo x)
  new=${new%x}
  if [ -e "$1" ] && [ "$(cat "$1"; echo x)" = "${new}x" ]; then return; fi
  install -d "$(dirname "$1")" "$pending"
  touch "$pending/$4"
  printf '%s' "$new" | write_file "$1" "$2" "$3"
}
install_changed() { changed "${@:2}" <"$here/$1"; } # SOURCE FILE MODE OWNER:GROUP UNIT

# apply_changes UNIT…: enables and starts units, and restarts those whose configuration has changed.
apply_changes() {
  local unit
  systemctl daemon-reload
  for unit in "$@"; do
    systemctl --quiet enable "$unit" 2>/dev/null || die "systemctl enable $unit failed"
    if [ -e "$pending/$unit" ]; then systemctl restart "$unit"; else systemctl start "$unit"; fi ||
      die "$unit does not start; to see why: journalctl -u $unit -n 20"
    rm -f "$pending/$unit"
  done
}

# create_databases: creates the roles and databases that are missing, and gives the roles the passwords of the settings.
create_databases() {
  local url
  for url in "$(value "$owners" STAGEDOOR_MIGRATION_URL)" "$(value "$owners" STAGEDOOR_KEYRING_MIGRATION_URL)"; do
    create_role "$url"
    create_database "$(database_of "$url")" "$(user_of "$url")"
  done
  create_role "$(value "$settings" DATABASE_URL)"
  create_role "$(value "$settings" STAGEDOOR_KEYRING_URL)"
  say "databases: $(database_of "$(value "$settings" DATABASE_URL)"), $(database_of "$(value "$settings" STAGEDOOR_KEYRING_URL)")"
}
create_role() { # URL
  # On standard input, because ps shows arguments.
  sql postgres <<SQL
\set role $(user_of "$1")
\set password $(password_of "$1")
SELECT NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'role') AS missing \gset
\if :missing
CREATE ROLE :"role" LOGIN;
\endif
ALTER ROLE :"role" PASSWORD :'password';
SQL
}
# write_proxy: the proxy on this machine, unless the operator has set others.
write_proxy() {
  local password
  password=$(value "$settings" STAGEDOOR_EGRESS)
  case $password in
    '') password=$(random) ;;
    *@127.0.0.1:3128) password=$(password_of "${password#*=}") ;;
    *) return ;;
  esac
  set_value "$settings" STAGEDOOR_REGIONS "$region"
  set_value "$settings" STAGEDOOR_EGRESS "$region=http://stagedoor:$password@127.0.0.1:3128"
  PASSWORD=$password SANDBOX=$(if [ "$sandbox" = on ]; then echo 'ConnectPort 18200'; fi) awk '
    { sub(/@PASSWORD@/, ENVIRON["PASSWORD"]); sub(/^@SANDBOX@$/, ENVIRON["SANDBOX"]); print }' "$here/egress.conf" |
    changed "$etc/egress.conf" 600 root:root stagedoor-egress
  install_changed systemd/stagedoor-egress.service /etc/systemd/system/stagedoor-egress.service 644 root:root stagedoor-egress
  apply_changes stagedoor-egress
  say "region $region: traffic to platforms leaves from this machine"
}

# set_up_dex: the identity provider. Its configuration is written once; people are added to it by hand.
set_up_dex() {
  local config=$etc/dex.yaml password secret
  if [ ! -e "$config" ]; then
    password=$(random | cut -c 1-24)
    DEX_PASSWORD=$(random) DASHBOARD_SECRET=$(random) CONSOLE_SECRET=$(random) \
      OPERATOR_HASH=$(caddy hash-password <<<"$password") OPERATOR_ID=$(cat /proc/sys/kernel/random/uuid) \
      LOGIN_DOMAIN=$login API_DOMAIN=$domain OPERATOR=$operator \
      awk '{ for (name in ENVIRON) while (at = index($0, "@" name "@")) $0 = substr($0, 1, at - 1) ENVIRON[name] substr($0, at + length(name) + 2); print }' \
      "$here/dex.yaml" | write_file "$config" 600
    {
      printf 'address %s\n' "$operator"
      printf 'password %s\n' "$password"
    } | write_file "$etc/first-operator" 600
    say "the password of $operator is in $etc/first-operator; note it, and delete the file"
  fi
  secret=$(sed -nE 's/.*user: dex, password: "([^"]*)".*/\1/p' "$config")
  create_role "postgres://dex:$secret@127.0.0.1/dex"
  create_database dex dex
  set_default "$settings" STAGEDOOR_OIDC_ISSUER "https://$login"
  set_default "$settings" STAGEDOOR_OIDC_CLIENT_ID dashboard
  set_default "$settings" STAGEDOOR_OIDC_CLIENT_SECRET "$(client_secret dashboard)"
  set_default "$settings" STAGEDOOR_OPERATORS_OIDC_ISSUER "https://$login"
  set_default "$settings" STAGEDOOR_OPERATORS_OIDC_CLIENT_ID console
  set_default "$settings" STAGEDOOR_OPERATORS_OIDC_CLIENT_SECRET "$(client_secret console)"
  # Operators reach the console through a tunnel (ssh -L 8081:127.0.0.1:8081).
  set_default "$settings" STAGEDOOR_OPERATORS_URL http://localhost:8081
  set_default "$settings" STAGEDOOR_OPERATORS_FILE "$etc/operators"
  if [ ! -e "$etc/operators" ]; then
    printf '# who may operate the service, and with which role\n%s=owner\n' "$operator" | write_file "$etc/operators" 640 root:stagedoor
  fi
  install_changed login.caddy /etc/caddy/stagedoor.d/login.caddy 644 root:root caddy
  install_changed systemd/stagedoor-dex.service /etc/systemd/system/stagedoor-dex.service 644 root:root stagedoor-dex
  apply_changes stagedoor-dex
  wait_for 60 dex_answers || die "Dex does not answer; to see why: journalctl -u stagedoor-dex -n 20"
  say "people sign in at https://$login"
}
client_secret() { grep -A 2 -E "^ +- id: $1\$" "$etc/dex.yaml" | sed -nE 's/^ +secret: "([^"]*)"/\1/p'; } # CLIENT
dex_answers() { curl -fsS --noproxy '*' -m 5 -o /dev/null http://127.0.0.1:5556/healthz 2>/dev/null || curl -fsS --noproxy '*' -m 5 -o /dev/null http://127.0.0.1:5556/.well-known/openid-configuration 2>/dev/null; }

start_services() {
  install -d -m 755 /etc/caddy/stagedoor.d
  install_changed Caddyfile /etc/caddy/stagedoor.Caddyfile 644 root:root caddy
  install_changed systemd/caddy.conf /etc/systemd/system/caddy.service.d/stagedoor.conf 644 root:root caddy
  install_changed systemd/stagedoor-backup.service /etc/systemd/system/stagedoor-backup.service 644 root:root stagedoor-backup.timer
  install_changed systemd/stagedoor-backup.timer /etc/systemd/system/stagedoor-backup.timer 644 root:root stagedoor-backup.timer
  # Caddy does not start with a wrong configuration, but it would stop first.
  (read_settings "$etc/caddy.env" && caddy validate --adapter caddyfile --config /etc/caddy/stagedoor.Caddyfile >/dev/null 2>"$etc/caddy.log") ||
    die "Caddy refuses its configuration: $(tail -n 1 "$etc/caddy.log")"
  rm -f "$etc/caddy.log"
  apply_changes caddy stagedoor-backup.timer
  if [ "$certificates" = internal ]; then trust_caddy; fi
  if [ "$sandbox" = on ]; then
    systemctl --quiet enable --now stagedoor-sandbox
  elif systemctl --quiet is-enabled stagedoor-sandbox 2>/dev/null; then
    systemctl --quiet disable --now stagedoor-sandbox
  fi
  systemctl --quiet enable "$node" 2>/dev/null
  # It returns when the node is ready.
  systemctl restart "$node" || die "the node does not become ready; to see why: journalctl -u $node -n 20"
}

# trust_caddy: programs on this machine accept the certificates of Caddy's own authority.
trust_caddy() {
  local root=/var/lib/caddy/.local/share/caddy/pki/authorities/local/root.crt
  wait_for 60 test -s "$root" || die "Caddy has made no authority; to see why: journalctl -u caddy -n 20"
  if cmp -s "$root" /usr/local/share/ca-certificates/stagedoor-caddy.crt; then return; fi
  install -m 644 "$root" /usr/local/share/ca-certificates/stagedoor-caddy.crt
  update-ca-certificates >/dev/null 2>&1
}
