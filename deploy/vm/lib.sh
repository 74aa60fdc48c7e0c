# shellcheck shell=bash
# Helpers of stagedoor-vm.

etc=/etc/stagedoor
settings=$etc/stagedoord.env
# shellcheck disable=SC2034
owners=$etc/migrate.env
keyset=/var/lib/stagedoor/keyset.json
node=stagedoord@1

say() { printf '%s\n' "$*"; }
die() {
  printf 'stagedoor-vm: %s\n' "$*" >&2
  exit 1
}
need_root() { [ "$(id -u)" = 0 ] || die "run this as root: sudo stagedoor-vm …"; }

# wait_for SECONDS COMMAND…: repeats the command until it succeeds.
wait_for() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.5
  done
}

# Writes standard input to a file atomically.
write_file() { # FILE MODE [OWNER:GROUP]
  local tmp
  tmp=$(mktemp "$1.XXXXXX")
  cat >"$tmp"
  chmod "$2" "$tmp"
  if [ -n "${3:-}" ]; then chown "$3" "$tmp"; fi
  mv -f "$tmp" "$1"
}

random() { od -An -vtx1 -N32 /dev/urandom | tr -d ' \n'; }

# value FILE NAME: prints the value of a setting, without the quotes that systemd allows.
value() {
  local line
  line=$(grep -E "^$2=" "$1" 2>/dev/null | tail -n 1) || return 0
  line=${line#*=}
  case $line in \"*\") line=${line#\"} line=${line%\"} ;; \'*\') line=${line#\'} line=${line%\'} ;; esac
  printf '%s\n' "$line"
}

# set_value FILE NAME VALUE: sets a setting, in place of the line that sets it or that shows it as an example.
set_value() {
  local mode
  mode=$(stat -c %a "$1")
  NAME=$2 VALUE=$3 awk '
    index($0, ENVIRON["NAME"] "=") == 1 || (!done && index($0, "#" ENVIRON["NAME"] "=") == 1) {
      if (!done) print ENVIRON["NAME"] "=" ENVIRON["VALUE"]
      done = 1
      next
    }
    { print }
    END { if (!done) print ENVIRON["NAME"] "=" ENVIRON["VALUE"] }' "$1" | write_file "$1" "$mode"
}

# set_default FILE NAME VALUE: sets a setting that is not set.
set_default() { if [ -z "$(value "$1" "$2")" ]; then set_value "$@"; fi; }

# read_settings [FILE…]: exports the variables of settings files, by default those of the node.
read_settings() {
  local file line
  if [ $# = 0 ]; then set -- "$settings"; fi
  for file in "$@"; do
    [ -r "$file" ] || die "$file is missing; run: stagedoor-vm setup"
    while IFS= read -r line; do
      line=${line%%=*}
      export "$line=$(value "$file" "$line")"
    done < <(grep -E '^[A-Za-z_][A-Za-z0-9_]*=' "$file")
  done
}

# as_node ARGUMENT…: runs stagedoord with the settings and the rights of the node. In a subshell, because the caller must
# not keep the settings.
as_node() (
  read_settings
  exec setpriv --reuid=stagedoor --regid=stagedoor --init-groups -- stagedoord "$@"
)

# superuser COMMAND…: runs a command as the superuser of PostgreSQL.
superuser() (cd / && exec setpriv --reuid=postgres --regid=postgres --init-groups -- "$@")
sql() { superuser psql -XAtq -v ON_ERROR_STOP=1 "$@"; } # DATABASE and the query on standard input, or options

# create_database NAME OWNER: creates a database if it is missing.
create_database() {
  sql postgres <<SQL
SELECT format('CREATE DATABASE %I OWNER %I TEMPLATE template0 ENCODING ''UTF8'' LOCALE ''C.UTF-8''', '$1', '$2')
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = '$1') \gexec
SQL
}

# database_of URL, with_database URL NAME: print the name of the database in an address, or the address of another one.
database_of() { sed -E 's,^[^:]+://[^/]*/([^?]*).*$,\1,' <<<"$1"; }
with_database() { sed -E "s,^([^:]+://[^/]*/)[^?]*,\1$2," <<<"$1"; }

# user_of URL, password_of URL
user_of() { sed -E 's,^[^:]+://([^:@]*).*$,\1,' <<<"$1"; }
password_of() { sed -E 's,^[^:]+://[^:]*:([^@]*)@.*$,\1,' <<<"$1"; }

# node_ready: reports whether the node is ready.
node_ready() { curl -fsS --noproxy '*' -m 5 -o /dev/null http://127.0.0.1:8081/readyz 2>/dev/null; }

# sizes FILE…: prints the size of files.
size_of() { du -h --apparent-size "$1" | cut -f1; }

valkey_answers() { [ "$(valkey PING 2>/dev/null)" = PONG ]; }
# The password is in the environment, because ps shows arguments.
valkey() { REDISCLI_AUTH=$(password_of "$(value "$settings" REDIS_URL)") valkey-cli -h 127.0.0.1 --no-auth-warning "$@"; }
nats_answers() { curl -fsS --noproxy '*' -m 5 -o /dev/null 'http://127.0.0.1:8222/healthz?js-enabled-only=true' 2>/dev/null; }
