# shellcheck shell=bash
# Helpers for the scripts in this folder. Source it first: it changes to the root
# of the repository and loads nothing else.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root" || exit 1
state=$root/.dev # files of the processes that we start; scripts/engines may change it

say() { printf '%s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }
is_root() { [ "$(id -u)" = 0 ]; }

# wait_for SECONDS COMMAND…: repeats the command until it succeeds.
wait_for() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.05
  done
}

# Writes standard input to a file atomically, so that readers never see half of it.
write_file() { # FILE [MODE]
  local tmp
  tmp=$(mktemp "$1.XXXXXX")
  cat >"$tmp"
  chmod "${2:-644}" "$tmp"
  mv -f "$tmp" "$1"
}

# --- one script at a time -------------------------------------------------

# lock FILE: holds the lock until the script exits. start() closes the descriptor
# for the processes it starts; otherwise a server would hold the lock forever.
lock() {
  exec 9>>"$1"
  flock -w 600 9 || die "another script has held $1 for ten minutes; to find it: fuser -v $1"
}

# --- ports ------------------------------------------------------------------

# DEV_PORT_OFFSET is added to all ports of a clone. It is stored in
# .dev/port-offset, so it must be set only once per clone. (Its name does not start
# with STAGEDOOR_, because the server refuses unknown variables with that prefix.)
port_offset() {
  local offset=${DEV_PORT_OFFSET:-}
  if [ -z "$offset" ]; then
    offset=$(cat .dev/port-offset 2>/dev/null || echo 0)
  fi
  case $offset in
    '' | *[!0-9]* | ?????*) die "DEV_PORT_OFFSET must be a number from 0 to 4000, not '$offset' (stored in .dev/port-offset)" ;;
  esac
  # Above 4000 the test ports would reach the kernel's range of ephemeral ports.
  [ "$offset" -le 4000 ] || die "DEV_PORT_OFFSET must be a number from 0 to 4000, not '$offset' (stored in .dev/port-offset)"
  if [ -n "${DEV_PORT_OFFSET:-}" ] && [ "$(cat .dev/port-offset 2>/dev/null)" != "$offset" ]; then
    mkdir -p .dev
    echo "$offset" | write_file .dev/port-offset
  fi
  echo "$offset"
}

# Prints the ids of the processes that listen on a TCP port, one per line; "?" for a process that we may not see.
port_owners() {
  local line
  line=$(ss -Hltnp "sport = :$1" 2>/dev/null)
  [ -n "$line" ] || return 0
  case $line in
    *pid=*) grep -o 'pid=[0-9]*' <<<"$line" | cut -d= -f2 | sort -u ;;
    *) echo '?' ;;
  esac
}
# Prints a free port.
free_port() { node -e 'const s = require("node:net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); })'; }
port_free() { [ -z "$(port_owners "$1")" ]; }
owns_port() { port_owners "$2" | grep -qx "$1"; } # PID PORT

# Dies if another process listens on the port, and explains what to do.
need_port() { # PORT WHAT
  local owner who offset
  owner=$(port_owners "$1" | head -n 1)
  [ -n "$owner" ] || return 0
  if [ "$owner" = '?' ]; then
    who='a process of another user'
  else
    who="pid $owner ($(tr '\0' ' ' <"/proc/$owner/cmdline" 2>/dev/null | cut -c1-100))"
  fi
  offset=$(port_offset)
  die "port $1, needed for $2, is used by $who.
  Stop that process, or move all ports of this clone: DEV_PORT_OFFSET=$(((offset + 500) % 4500)) make up
  (the offset is stored in .dev/port-offset; currently it is $offset)"
}

# --- background processes -----------------------------------------------
# Their files are in $state: run/NAME.pid, run/NAME.start (the kernel's start time
# of that pid, so that a reused pid is not mistaken for ours) and log/NAME.log.

proc_start() { # PID
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  # The name in brackets may contain spaces, so count the fields after it.
  # shellcheck disable=SC2086
  set -- ${stat##*) }
  [ "$1" != Z ] && echo "${20}"
}

pid_of() { cat "$state/run/$1.pid" 2>/dev/null; }

alive() { # NAME
  local pid
  pid=$(pid_of "$1") && [ -n "$pid" ] && [ "$(proc_start "$pid")" = "$(cat "$state/run/$1.start" 2>/dev/null)" ]
}

# start NAME COMMAND…: starts the command in a new session, so that it outlives this shell.
start() {
  local name=$1 log="$state/log/$1.log" pid
  shift
  mkdir -p "$state/run" "$state/log"
  # Keep one old log file, which is enough for development.
  if [ "$(stat -c %s "$log" 2>/dev/null || echo 0)" -gt 50000000 ]; then mv -f "$log" "$log.1"; fi
  setsid "$@" </dev/null >>"$log" 2>&1 9>&- &
  pid=$!
  proc_start "$pid" >"$state/run/$name.start" || true
  echo "$pid" >"$state/run/$name.pid"
}

forget() { rm -f "$state/run/$1.pid" "$state/run/$1.start" "$state/run/$1.port" "$state/run/$1.sum"; }

gone() { ! alive "$1"; }

# stop NAME [SIGNAL [SECONDS]]: sends the signal, and kills the process if it does not exit in time.
stop() {
  local name=$1 pid
  if alive "$name"; then
    pid=$(pid_of "$name")
    kill "-${2:-TERM}" "$pid" 2>/dev/null || true
    if ! wait_for "${3:-15}" gone "$name"; then
      say "$name (pid $pid) did not stop in ${3:-15} s: killing it"
      kill -KILL "$pid" 2>/dev/null || true
      wait_for 5 gone "$name" || die "$name (pid $pid) cannot be killed"
    fi
  fi
  forget "$name"
}

show_log() { # NAME [LINES]
  [ -f "$state/log/$1.log" ] || return 0
  printf -- '--- last lines of %s\n' "$state/log/$1.log" >&2
  tail -n "${2:-20}" "$state/log/$1.log" >&2
}

# clean COMMAND…: runs the command without the variables of this shell. The server
# refuses unknown STAGEDOOR_ variables, and an inherited PGHOST or HTTP_PROXY would
# misdirect it. (Not `env -i A=b …`, which shows secrets in ps.)
clean() (
  local name
  for name in $(compgen -e); do
    case $name in
      PATH | HOME) ;;
      *) export -n "${name?}" ;;
    esac
  done
  "$@"
)

# --- secrets ---------------------------------------------------------------
# They are created once and stored in .dev/secrets, which is plain shell.

random() { od -An -vtx1 -N32 /dev/urandom | tr -d ' \n'; }

keep() { # NAME VALUE
  {
    grep -v "^$1=" .dev/secrets || true
    printf "%s='%s'\n" "$1" "$2"
  } | write_file .dev/secrets 600
  printf -v "$1" '%s' "$2"
}

# --- for CI --------------------------------------------------------------------

# Prints the first offset at which all our ports are free, because another clone's
# system may be running on this machine. It keeps an offset that was set before.
free_port_offset() {
  local taken offset port
  if [ -n "${DEV_PORT_OFFSET:-}" ] || [ -e .dev/port-offset ]; then
    port_offset
    return
  fi
  taken=$(ss -Hltn | awk '{sub(/.*:/, "", $4); print $4}' | sort -u)
  for offset in 0 500 1000 1500 2000 2500 3000 3500; do # with 4000, the test engines would have ports of offset 0
    for port in 14222 15432 16379 18222 24222 25432 26379 28222 18080 18081 18090 18091 18100 18101 18200 18225 18301 18302 18368; do
      if grep -qx "$((port + offset))" <<<"$taken"; then continue 2; fi
    done
    echo "$offset"
    return
  done
  die "all port ranges are in use; stop the systems of other clones: make down in each"
}

# --- organisations of a running system ------------------------------------------

# new_sandbox_org NAME, new_live_org NAME: create an organisation and print its key. Each check uses its own, so that concurrent checks do
# not share accounts or limits. Needs the variables of .dev/env.
new_sandbox_org() { new_org "$1" growth sandbox; }
new_live_org() { new_org "$1" scale live; }
new_org() { # NAME PLAN ENVIRONMENT
  printf '{"name":"%s","plan":"%s","environment":"%s","contactEmail":"checks@example.com"}' "$@" |
    curl -fsS --noproxy '*' -m 10 -H "Authorization: Bearer $STAGEDOOR_ADMIN_TOKEN" -H 'Content-Type: application/json' -d @- "$STAGEDOOR_INTERNAL_URL/admin/v1/orgs" |
    grep -oE 'sd_(sandbox|live)_[0-9A-Za-z]*' | head -n 1
}
