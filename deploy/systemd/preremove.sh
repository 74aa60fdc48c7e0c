#!/bin/sh
# Stops the nodes before the package stagedoord is removed, but not before an upgrade: dpkg passes "remove", rpm 0.
set -e
case ${1:-} in
  remove | 0) ;;
  *) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
  systemctl stop 'stagedoord@*.service'
fi
