#!/bin/sh
# Installs QEMU, makes the image of microVMs, and runs the suite of the driver
# in real machines. Needs apt and root; takes about six minutes without KVM.
set -eu
cd "$(dirname "$0")/.."
if ! command -v qemu-system-x86_64 >/dev/null || ! command -v mmdebstrap >/dev/null || ! command -v lz4 >/dev/null; then
	apt-get update -q
	DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends qemu-system-x86 mmdebstrap e2fsprogs lz4
fi
home=${TOOLROOM_MICROVM_HOME:-$(mktemp -d)}
CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/toolroom ./cmd/toolroom-guest
bin/toolroom --home "$home" setup microvm --verify 2>/dev/null || bin/toolroom --home "$home" setup microvm
TOOLROOM_TEST_MICROVM="$home/microvm" go test -tags integration -count=1 -timeout 25m ./internal/sandbox/microvm/
