#!/bin/sh
# Installs QEMU, makes the image of microVMs, and runs the suite of the driver
# in real machines: all of it when the argument is "whole", which takes about six
# minutes without KVM, and otherwise the part below. Needs apt and root.
set -eu
cd "$(dirname "$0")/.."

# One of each: programs, calls both ways, every limit and wall, all ways out,
# what a killed machine leaves, sandboxes that wait, and machines that differ.
part='TestTheSuite/^python$/^(a_value_comes_back|a_failed_tool_that_nobody|calls_run_in_parallel|a_thousand_calls|a_large_value|output,_progress|values_round_trip|a_cancelled_program)'
part="$part|TestTheSuite/^(shell|a_static_binary|exit_codes|a_process_that|memory|pids|disk|cpu|network|egress|root|environment|files_of|negative_limit|nothing_is_left)"
part="$part|TestAProgramCannot|TestAMachineThat|TestAGuestsEnd|TestAFullDisk|TestAKilledMonitor|TestRestoredMachines|TestMachinesWait"
[ "${1:-part}" != whole ] || part=.

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
TOOLROOM_TEST_MICROVM="$home/microvm" go test -tags integration -count=1 -timeout 25m -run "$part" ./internal/sandbox/microvm/
