#!/bin/sh
# Installs QEMU, makes the image of microVMs, and runs the suite of the driver
# in real machines: all of it when the argument is "whole", which takes about six
# minutes without KVM, and otherwise the part below. Needs apt and root.
set -eu
cd "$(dirname "$0")/.."

# One of each: programs, calls both ways, every limit and wall, all ways out,
# what a killed machine leaves, sandboxes that wait, and machines that differ.
part='-short -run TestTheSuite|TestAProgramCannot|TestAMachineThat|TestAGuestsEnd|TestAFullDisk|TestAKilledMonitor|TestRestoredMachines|TestMachinesWait'
[ "${1:-part}" != whole ] || part=

if ! command -v qemu-system-x86_64 >/dev/null || ! command -v mmdebstrap >/dev/null || ! command -v lz4 >/dev/null; then
	apt-get update -q
	DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends qemu-system-x86 mmdebstrap e2fsprogs lz4
fi
# The kernel is downloaded by apt, which must know it.
apt-cache show linux-image-cloud-amd64 >/dev/null 2>&1 || apt-get update -q

home=${TOOLROOM_MICROVM_HOME:-}
if [ -z "$home" ]; then
	home=$(mktemp -d)
	trap 'rm -rf "$home"' EXIT
fi
CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/toolroom ./cmd/toolroom-guest
bin/toolroom --home "$home" setup microvm --verify 2>/dev/null || bin/toolroom --home "$home" setup microvm
TOOLROOM_TEST_MICROVM="$home/microvm" go test -tags integration -count=1 -timeout 25m $part ./internal/sandbox/microvm/
