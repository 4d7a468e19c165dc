#!/bin/sh
# Stops the service when the package is removed, and not when it is updated. State and
# config stay.
set -e
case "$1" in
upgrade | 1) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
  systemctl disable --now toolroom.service || true
fi
