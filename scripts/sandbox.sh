# shellcheck shell=bash
# Runs the sandbox platform, a forward proxy to it for each region, and Ghost if
# GHOST is 1, on a developer's machine. Source it after lib.sh and ghost.sh.
#
# The proxies are real and need a password, so that a node behaves as in
# production. Each uses its own loopback source address, which tells the sandbox
# the region. The sandbox also receives the mail that Ghost sends.

: "${root:?source lib.sh first}" "${state:?source lib.sh first}"
outside='sandbox proxy-us proxy-uk'
ghost_runs() { [ "${GHOST:-}" = 1 ]; }
if ghost_runs; then outside+=' ghost'; fi

outside_port() { # NAME
  local offset
  offset=$(port_offset)
  case $1 in
    sandbox) echo $((18200 + offset)) ;;
    mail) echo $((18225 + offset)) ;;
    ghost) echo $((18368 + offset)) ;;
    proxy-us) echo $((18301 + offset)) ;;
    proxy-uk) echo $((18302 + offset)) ;;
  esac
}
sandbox_url() { echo "http://127.0.0.1:$(outside_port sandbox)"; }
ghost_url() { echo "http://127.0.0.1:$(outside_port ghost)"; }

# The following functions take a region.
proxy_source() { case $1 in us) echo 127.0.1.1 ;; uk) echo 127.0.2.1 ;; esac; }
proxy_password() { case $1 in us) echo "$EGRESS_US_PASSWORD" ;; uk) echo "$EGRESS_UK_PASSWORD" ;; esac; }
proxy_url() { echo "http://stagedoor:$(proxy_password "$1")@127.0.0.1:$(outside_port "proxy-$1")"; }

# with_sandbox COMMAND…: appends the sandbox's command line to the command.
with_sandbox() {
  "$@" "$root/bin/sandboxd" -addr "127.0.0.1:$(outside_port sandbox)" -data "$state/sandbox.db" \
    -regions "$(proxy_source us)=us,$(proxy_source uk)=uk" -mail "127.0.0.1:$(outside_port mail)"
}

proxy_conf() { # REGION
  if is_root; then
    # It reads this file as root and then drops its privileges.
    printf 'User nobody\nGroup %s\n' "$(id -gn nobody)"
  fi
  cat <<EOT
Listen 127.0.0.1
Port $(outside_port "proxy-$1")
Allow 127.0.0.1
BasicAuth stagedoor $(proxy_password "$1")
Bind $(proxy_source "$1")
# Allow tunnels to the platforms' ports only.
ConnectPort $(outside_port sandbox)
# An account uses one live socket and one or two for calls: enough for about a thousand accounts per region.
MaxClients 3000
# Idle seconds. Live sockets send something more often than that.
Timeout 600
# Do not log every connection, because the nodes check each proxy every few seconds.
LogLevel Notice
EOT
  if ghost_runs; then printf 'ConnectPort %s\n' "$(outside_port ghost)"; fi
  printf '%s\n' "${STAGEDOOR_PLATFORMS:-} ${STAGEDOOR_SITES:-}" | grep -oE 'https?://[^ ,]+' | sed -nE 's/.*:([0-9]+)$/ConnectPort \1/p' || true
}

# A tunnel needs two file descriptors of the proxy, and the default limit is 1,024.
with_files() { # COMMAND…
  ulimit -S -n 8192 2>/dev/null || true
  "$@"
}

# Prints a checksum of the program and the settings that a process was started with.
outside_sum() { # NAME
  case $1 in
    sandbox) cat bin/sandboxd && with_sandbox echo ;;
    proxy-*) cat "$(command -v tinyproxy)" && proxy_conf "${1#proxy-}" ;;
    ghost) ghost_site && outside_port ghost && outside_port mail && cat scripts/ghost.sh ;;
  esac | sha256sum | cut -d' ' -f1
}

outside_start() { # NAME
  case $1 in
    sandbox) with_sandbox clean start sandbox ;;
    proxy-*)
      mkdir -p "$state/conf"
      proxy_conf "${1#proxy-}" | write_file "$state/conf/$1.conf" 600
      clean with_files start "$1" "$(command -v tinyproxy)" -d -c "$state/conf/$1.conf"
      ;;
    ghost)
      ghost_copy
      ghost_start "$(outside_port ghost)" "$state/ghost" "$(outside_port mail)"
      ;;
  esac
  outside_sum "$1" >"$state/run/$1.sum"
}

# Succeeds if the process works: for a proxy, if a tunnel through it reaches the
# sandbox. The password is passed on standard input, so that ps does not show it.
outside_answers() { # NAME
  local ask=(curl -fsS -m 2 -o /dev/null "$(sandbox_url)/control/clock")
  case $1 in
    sandbox) "${ask[@]}" --noproxy '*' ;;
    ghost) ghost_answers "$(outside_port ghost)" ;;
    proxy-*) printf 'proxy = "%s"\n' "$(proxy_url "${1#proxy-}")" | "${ask[@]}" --noproxy '' --proxytunnel -K - ;;
  esac 2>/dev/null
}
outside_answers_or_dead() { outside_answers "$1" || gone "$1"; }
# Prints the ports on which a process listens.
outside_ports() { case $1 in sandbox) outside_port sandbox && outside_port mail ;; *) outside_port "$1" ;; esac; }
outside_ours() { # NAME
  local port
  alive "$1" || return 1
  for port in $(outside_ports "$1"); do owns_port "$(pid_of "$1")" "$port" || return 1; done
}

outside_wait() { # NAME
  local port limit=15
  if [ "$1" = ghost ]; then limit=120; fi
  wait_for $limit outside_answers_or_dead "$1" || true
  if outside_ours "$1" && outside_answers "$1"; then return; fi
  show_log "$1"
  if alive "$1"; then die "$1 (pid $(pid_of "$1")) is running but does not work on port $(outside_port "$1"); the end of its log is above. To restart it: make down, then make up"; fi
  for port in $(outside_ports "$1"); do need_port "$port" "$1"; done
  die "$1 exited immediately after its start; the end of its log is above. If the sandbox's data is corrupt: make down, and delete .dev/sandbox.db"
}

# --- all of them ---------------------------------------------------------------

sandbox_up() {
  local name port todo=()
  if ghost_runs; then ghost_prepare; else stop ghost TERM 60; fi
  for name in $outside; do
    if alive "$name" && [ "$(cat "$state/run/$name.sum" 2>/dev/null)" != "$(outside_sum "$name")" ]; then
      say "$name has changed; restarting it"
      stop "$name"
    fi
    if ! outside_ours "$name"; then
      stop "$name"
      todo+=("$name")
    fi
  done
  # Check all ports before starting anything, so that either all of them start or none.
  for name in "${todo[@]}"; do
    for port in $(outside_ports "$name"); do need_port "$port" "$name"; done
  done
  for name in "${todo[@]}"; do outside_start "$name"; done
  for name in $outside; do outside_wait "$name"; done
  if [ ${#todo[@]} -gt 0 ]; then
    say "sandbox up: $(outside_port sandbox), mail $(outside_port mail), proxies us $(outside_port proxy-us), uk $(outside_port proxy-uk)$(! ghost_runs || echo ", ghost $(outside_port ghost)")"
  fi
}

sandbox_down() {
  local name
  for name in ghost proxy-us proxy-uk sandbox; do stop "$name"; done
}

sandbox_status() {
  local name rc=0 EGRESS_US_PASSWORD='' EGRESS_UK_PASSWORD=''
  if [ -e .dev/secrets ]; then
    # shellcheck source=/dev/null
    . .dev/secrets
  fi
  for name in $outside; do
    if ! alive "$name"; then
      printf '%-10s stopped\n' "$name"
      rc=1
    elif outside_ours "$name" && outside_answers "$name"; then
      printf '%-10s up       127.0.0.1:%s  pid %s\n' "$name" "$(outside_port "$name")" "$(pid_of "$name")"
    else
      printf '%-10s failing  pid %s is running but does not work on port %s; see .dev/log/%s.log\n' "$name" "$(pid_of "$name")" "$(outside_port "$name")" "$name"
      rc=1
    fi
  done
  return $rc
}
