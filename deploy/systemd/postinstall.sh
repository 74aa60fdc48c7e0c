#!/bin/sh
# Runs after the package stagedoord is installed or upgraded. It starts and restarts nothing: the operator migrates the
# database first.
set -e
if command -v systemd-sysusers >/dev/null 2>&1; then
  systemd-sysusers /usr/lib/sysusers.d/stagedoor.conf
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
