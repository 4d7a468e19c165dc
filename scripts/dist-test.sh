#!/usr/bin/env bash
# Installs the packages of dist/ for this platform in temporary folders, without a
# network, and runs what they install.
set -euo pipefail
cd "$(dirname "$0")/../dist"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TOOLROOM_HOME=$work/home
cpu=$(uname -m)
case $cpu in
x86_64) arch=amd64 npm=x64 ;;
aarch64) arch=arm64 npm=arm64 ;;
*) echo "no packages for $cpu" >&2; exit 1 ;;
esac

# check runs the programs in a folder: all must exist and have one version, and a tool must work.
check() {
  echo "  $("$1/toolroom" --version)"
  for program in toolroom-guest toolroom-runner; do
    test -x "$1/$program" || { echo "$1 has no $program" >&2; exit 1; }
  done
  # It must be found, be of the same build, and start.
  "$1/toolroom" doctor | grep -c >/dev/null '^ok *toolroom-runner ' || { echo "$1/toolroom cannot use its toolroom-runner" >&2; exit 1; }
  "$1/toolroom" call system:info --json | grep -c >/dev/null '"status": *"ok"' || { echo "a call of $1/toolroom failed" >&2; exit 1; }
}

echo "checksums"; sha256sum --check --quiet SHA256SUMS

echo "archive"
tar -xzf toolroom-*-linux-$arch.tar.gz -C "$work"
check "$(echo "$work"/toolroom-*-linux-$arch)"
grep -q '^\.TH' "$work"/toolroom-*/share/man/man1/toolroom-serve.1

echo "deb"
dpkg-deb --extract toolroom_*_$arch.deb "$work/deb"
dpkg-deb --field toolroom_*_$arch.deb Package | grep -qx toolroom
check "$work/deb/usr/bin"
gzip -dc "$work/deb/usr/share/man/man1/toolroom-serve.1.gz" | grep -c >/dev/null '^\.TH'
grep -q __start_toolroom "$work/deb/usr/share/bash-completion/completions/toolroom"
if command -v systemd-analyze >/dev/null; then
  sed "s|/usr/bin/toolroom|$work/deb/usr/bin/toolroom|" "$work/deb/usr/lib/systemd/system/toolroom.service" >"$work/toolroom.service"
  systemd-analyze verify --man=no "$work/toolroom.service"
fi

echo "rpm"
# The scripts of the package make a user and restart the service, so they do not run here.
rpm --root "$work/rpm" --install --nodeps --noscripts --ignorearch toolroom-*."$cpu".rpm
check "$work/rpm/usr/bin"

echo "npm"
(
  mkdir "$work/npm" && cd "$work/npm" && echo '{"private": true}' >package.json
  npm install --offline --ignore-scripts --no-audit --no-fund --loglevel=error "$OLDPWD"/toolroom-npm-linux-$npm-*.tgz "$(ls "$OLDPWD"/toolroom-npm-[0-9]*.tgz)"
  echo "  $(npx --offline toolroom --version)"
  npx --offline toolroom call no:tool 2>/dev/null && exit 1 || test $? = 4 # exit codes pass through
)

echo "wheel"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-index toolroom-*manylinux*_"$cpu"*.whl
check "$work/venv/bin"
echo "all packages work"
