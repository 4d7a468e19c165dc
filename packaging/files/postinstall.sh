#!/bin/sh
# Makes the user of the service, and a config that serves nothing until it is edited.
set -e
if ! getent passwd toolroom >/dev/null; then
  useradd --system --user-group --home-dir /var/lib/toolroom --shell /usr/sbin/nologin toolroom
fi
if [ ! -e /etc/toolroom/toolroom.yaml ]; then
  mkdir -p /etc/toolroom
  printf '# See https://github.com/toolroom/toolroom/blob/main/docs/config.md\nserver: {listen: 127.0.0.1:7070}\n' > /etc/toolroom/toolroom.yaml
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  # After an update the running service must not keep the old program.
  systemctl try-restart toolroom.service
fi
