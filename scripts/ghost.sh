# shellcheck shell=bash
# Installs Ghost, a real platform for development and tests, and prepares a site with members and posts. Source it after
# lib.sh.
#
# Both take minutes, so both are in a cache outside the clone: the program by its lock file, the site by the program and
# test/ghost/seed.mjs. A clone runs a copy of the site (scripts/sandbox.sh).

: "${root:?source lib.sh first}" "${state:?source lib.sh first}"
ghost_version=5.130.6
ghost_sha256=f91213dec239b55a8407c60ee8621349a7828f9f4bb448ef9747718d2b13b6b0

ghost_cache() {
  local key
  key=$({ cat test/ghost/package-lock.json && echo "$ghost_sha256 $(uname -m)"; } | sha256sum | cut -c1-16)
  echo "${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/stagedoor/ghost/$key"
}
ghost_home() { echo "$(ghost_cache)/ghost"; }
# Prints the folder of the prepared site: ghost.db, content/, and the owner's e-mail address and password in owner.
ghost_site() { echo "$(ghost_cache)/site-$(sha256sum <test/ghost/seed.mjs | cut -c1-16)"; }

# Prints a new folder in memory if possible, because Ghost writes its database row by row.
ghost_folder() { mktemp -d "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/var/tmp}")/stagedoor-ghost.XXXXXX"; }

# npm calls overrides what yarn, for which the package is made, calls resolutions.
# shellcheck disable=SC2016 # it is JavaScript
ghost_edit='
  const { readFileSync, writeFileSync } = require("node:fs");
  const { devDependencies, resolutions, ...rest } = JSON.parse(readFileSync("package.json"));
  writeFileSync("package.json", JSON.stringify({ ...rest, overrides: resolutions }));
'

# The steps of ghost_install, in the current folder. A chain, because set -e has no effect where a failure is handled.
ghost_download() {
  # The headers of a Node from a package are next to it.
  local prefix
  prefix=$(node -p 'path.dirname(path.dirname(process.execPath))')
  if [ -e "$prefix/include/node/common.gypi" ]; then export npm_config_nodedir=$prefix; fi
  npm pack --loglevel=error "ghost@$ghost_version" &&
    echo "$ghost_sha256  ghost-$ghost_version.tgz" | sha256sum --check --quiet &&
    tar -xzf "ghost-$ghost_version.tgz" &&
    cp "$root/test/ghost/package-lock.json" package/ &&
    cd package &&
    rm yarn.lock &&
    node -e "$ghost_edit" &&
    npm ci --omit=dev --legacy-peer-deps --ignore-scripts --no-audit --no-fund &&
    npm_config_build_from_source=true npm rebuild sqlite3 && # a downloaded binary would have no checksum
    node -e 'require("sqlite3")'
}

# ghost_install: downloads the package and what its lock file names, and compiles SQLite. Scripts of packages do not run,
# apart from SQLite's.
ghost_install() (
  cache=$(ghost_cache)
  if [ -e "$cache/ghost/index.js" ]; then return; fi
  mkdir -p "$cache"
  lock "$cache/lock"
  if [ -e "$cache/ghost/index.js" ]; then return; fi # another script has installed it
  scripts/install ghost 9>&-
  say "installing Ghost $ghost_version (once per version; takes some minutes)"
  log=$cache/install.log
  rm -rf "$cache/new"
  mkdir "$cache/new"
  cd "$cache/new"
  ghost_download >"$log" 2>&1 9>&- || {
    tail -n 20 "$log" >&2
    die "Ghost could not be installed (whole log: $log)"
  }
  mv "$cache/new/package" "$cache/ghost"
  rm -rf "$cache/new"
)

# ghost_env PORT FOLDER MAIL_PORT COMMAND…: runs the command with Ghost's settings. MAIL_PORT is empty to drop all mail.
# The limits of sign-ins are raised, because tests sign in more often than people.
ghost_env() {
  local port=$1 folder=$2 mail=$3 limit
  shift 3
  export NODE_ENV=production url="http://127.0.0.1:$port" server__host=127.0.0.1 server__port="$port"
  export database__client=sqlite3 database__useNullAsDefault=true database__connection__filename="$folder/ghost.db"
  export paths__contentPath="$folder/content" logging__transports='["stdout"]'
  export privacy__useUpdateCheck=false privacy__useGravatar=false
  export mail__from='Ghost <ghost@ghost.test>' mail__transport=stub
  if [ -n "$mail" ]; then
    export mail__transport=SMTP mail__options__host=127.0.0.1 mail__options__port="$mail" mail__options__secure=false mail__options__ignoreTLS=true
  fi
  for limit in user_login user_reset user_verification send_verification_code global_reset global_block member_login email_preview_block; do
    export "spam__${limit}__freeRetries=100000"
  done
  "$@"
}

# ghost_start PORT FOLDER MAIL_PORT: starts Ghost as the process "ghost" of $state.
ghost_start() { clean ghost_env "$@" start ghost env -C "$(ghost_home)" node index.js; }
ghost_answers() { curl -fsS --noproxy '*' -m 5 -o /dev/null "http://127.0.0.1:$1/ghost/api/admin/site/" 2>/dev/null; } # PORT
ghost_answers_or_dead() { ghost_answers "$1" || gone ghost; }

# ghost_prepare: installs Ghost, and creates the prepared site.
ghost_prepare() (
  ghost_install
  site=$(ghost_site)
  if [ -e "$site/owner" ]; then return; fi
  lock "$(ghost_cache)/lock"
  if [ -e "$site/owner" ]; then return; fi # another script has created it
  say "creating a Ghost site with members and posts (once per version)"
  state=$(ghost_folder)
  # shellcheck disable=SC2064 # the folder is known now
  trap "rm -rf '$state'" EXIT
  cp -r "$(ghost_home)/content" "$state/content"
  port=$(free_port)
  ghost_start "$port" "$state" ''
  wait_for 180 ghost_answers_or_dead "$port" || true
  if ! ghost_answers "$port"; then
    show_log ghost
    stop ghost
    die "Ghost did not start; the end of its log is above"
  fi
  email=owner@ghost.test
  password=$(random)
  GHOST_URL=http://127.0.0.1:$port GHOST_EMAIL=$email GHOST_PASSWORD=$password node test/ghost/seed.mjs 9>&- || {
    show_log ghost
    stop ghost
    die "the Ghost site could not be created; the end of its log is above"
  }
  stop ghost TERM 60
  rm -rf "$site.new"
  mkdir "$site.new"
  chmod 700 "$site.new"
  cp -r "$state/ghost.db" "$state/content" "$site.new/"
  printf "GHOST_EMAIL='%s'\nGHOST_PASSWORD='%s'\n" "$email" "$password" | write_file "$site.new/owner" 600
  rm -rf "$site"
  mv "$site.new" "$site"
)

# ghost_copy: copies the prepared site, unless there is a copy. $state/ghost is a link to it.
ghost_copy() {
  local folder
  if [ -e "$state/ghost/ghost.db" ]; then return; fi
  ghost_forget # a link to a folder that was lost
  folder=$(ghost_folder)
  cp -r "$(ghost_site)/." "$folder/"
  ln -sfn "$folder" "$state/ghost"
}
ghost_forget() {
  if [ -L "$state/ghost" ]; then rm -rf "$(readlink "$state/ghost")" "$state/ghost"; fi
}
