#!/usr/bin/env bash
# Installs the container engines for drivers/test/runtimes, which runs the suite of sandbox drivers
# against them: Docker, Podman, containerd, runc and gVisor's runsc, and mmdebstrap for the
# default image. Needs Debian and root. The tests start and stop the daemons.
set -euo pipefail

missing=()
for pair in dockerd:docker.io docker:docker.io podman:podman containerd:containerd ctr:containerd runc:runc mmdebstrap:mmdebstrap; do
  command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
done
if [ ${#missing[@]} -gt 0 ]; then
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends iptables "${missing[@]}"
fi

# This is the release branch that go install can build; it takes 186 CPU seconds with an
# empty cache.
runsc=v0.0.0-20260527191743-a81fd9dd382e
if ! command -v runsc >/dev/null; then
  CGO_ENABLED=0 GOBIN=${GOBIN:-/usr/local/bin} go install -ldflags "-s -w" gvisor.dev/gvisor/runsc@$runsc
fi
