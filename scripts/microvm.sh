#!/bin/sh
# Installs QEMU, builds the image of microVMs, and runs the driver's suite in real VMs. If
# the argument is "whole", it runs the whole suite, which takes about six minutes without
# KVM; otherwise it runs the part below. Needs apt and root.
set -eu
cd "$(dirname "$0")/.."

# One test of each kind: programs, calls in both directions, limits, attacks of programs and guests, network
# access, the leftovers of a killed VM, warm sandboxes, and differences between VMs.
part='-short -run TestTheSuite|TestAProgramCannot|TestAMachineThat|TestAGuestsEnd|TestAGuestThat|TestAFullDisk|TestAKilledMonitor|TestRestoredMachines|TestMachinesWait'
[ "${1:-part}" != whole ] || part=

if ! command -v qemu-system-x86_64 >/dev/null || ! command -v mmdebstrap >/dev/null || ! command -v lz4 >/dev/null; then
	apt-get update -q
	DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends qemu-system-x86 mmdebstrap e2fsprogs lz4
fi
# apt downloads the kernel, and must have it in its lists.
apt-cache show linux-image-cloud-amd64 >/dev/null 2>&1 || apt-get update -q

home=${TOOLROOM_MICROVM_HOME:-}
if [ -z "$home" ]; then
	home=$(mktemp -d)
	trap 'rm -rf "$home"' EXIT
fi
make build
bin/toolroom --home "$home" setup microvm --verify 2>/dev/null || bin/toolroom --home "$home" setup microvm
TOOLROOM_TEST_MICROVM="$home/microvm" go -C drivers test -tags integration -count=1 -timeout 25m $part ./microvm/
