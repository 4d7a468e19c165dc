#!/usr/bin/env bash
# Runs a Kubernetes node on this machine for the tests of the driver kubernetes: etcd, API
# server, scheduler, controller manager, containerd and kubelet. Needs root.
#
#   scripts/kubernetes.sh install      install Debian packages, and build Kubernetes from Go modules
#   scripts/kubernetes.sh start DIR    start the node with all its files in DIR; DIR/kubeconfig has the rights of the administrator
#   scripts/kubernetes.sh stop DIR     stop the node and remove DIR
#   scripts/kubernetes.sh test ...     install, start, go test ./test/kubernetes/ in drivers ..., stop
#   scripts/kubernetes.sh gvisor       the same for the test of the RuntimeClass gvisor, whose own
#                                      threads count as processes of the Pod
#
# The first run builds Kubernetes in about 1,150 CPU seconds, and keeps the binaries in
# ~/.cache/toolroom.
set -euo pipefail
cd "$(dirname "$0")/.."

version=v1.36.3
containerd=v2.4.2
runsc=v0.0.0-20260527191743-a81fd9dd382e # as in engines.sh
bin=${XDG_CACHE_HOME:-$HOME/.cache}/toolroom/kubernetes-$version
api=https://127.0.0.1:16443

install() {
  local missing=() pair program
  for pair in etcd:etcd-server runc:runc ctr:containerd mmdebstrap:mmdebstrap iptables:iptables openssl:openssl curl:curl /usr/lib/cni/ptp:containernetworking-plugins /bin/busybox:busybox-static; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
  done
  if [ ${#missing[@]} -gt 0 ]; then
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
  fi
  mkdir -p "$bin"
  for program in kube-apiserver kube-scheduler kubelet kube-controller-manager; do
    [ -x "$bin/$program" ] || (cd drivers/test/kubernetes/node && GOWORK=off CGO_ENABLED=0 nice -n 10 go build \
      -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" -o "$bin/$program" "k8s.io/kubernetes/cmd/$program")
  done
  for program in containerd containerd-shim-runc-v2; do
    [ -x "$bin/$program" ] || CGO_ENABLED=0 GOBIN=$bin nice -n 10 go install -tags no_btrfs \
      "github.com/containerd/containerd/v2/cmd/$program@$containerd"
  done
  # The shim of gVisor for the CRI calls runsc from the PATH.
  command -v runsc >/dev/null || [ -x "$bin/runsc" ] ||
    CGO_ENABLED=0 GOBIN=$bin nice -n 10 go install -ldflags "-s -w" "gvisor.dev/gvisor/runsc@$runsc"
  [ -x "$bin/containerd-shim-runsc-v1" ] || build_shim
}

# build_shim builds gVisor's shim with one change: the original fails if it may not lower
# its OOM score, which needs CAP_SYS_RESOURCE, and test machines lack that.
build_shim() {
  local source work
  source=$(go mod download -json "gvisor.dev/gvisor@$runsc" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
  work=$(mktemp -d)
  cp -r "$source/." "$work"
  chmod -R u+w "$work"
  sed -i 's/oomScoreMax = -999/oomScoreMax = 0/' "$work/pkg/shim/v1/manager.go"
  (cd "$work" && CGO_ENABLED=0 nice -n 10 go build -ldflags "-s -w" -o "$bin/containerd-shim-runsc-v1" ./shim)
  rm -rf "$work"
}

# until_ready WHAT COMMAND...: repeat COMMAND until it succeeds, for at most 90 seconds.
until_ready() {
  local what=$1
  shift
  for _ in $(seq 900); do
    "$@" >/dev/null 2>&1 && return
    sleep .1
  done
  echo "$what is not ready after 90 seconds; its log is in $dir/logs" >&2
  tail -n 20 "$dir"/logs/*.log >&2
  return 1
}

ask() { curl -sf --max-time 5 -k -H "Authorization: Bearer $(cut -d, -f1 "$dir/tokens.csv" | head -1)" "$api$1"; }
node_ready() { ask /api/v1/nodes/127.0.0.1 | tr -d ' \n' | grep -q '"type":"Ready","status":"True"'; }

# launch NAME COMMAND...: start COMMAND in a session of its own, and record it for stop.
launch() {
  local name=$1
  shift
  PATH=$bin:$PATH setsid "$@" >"$dir/logs/$name.log" 2>&1 </dev/null &
  echo "$!" >>"$dir/pids"
}

kubeconfig() { # TOKEN
  cat <<END
apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: "$api", insecure-skip-tls-verify: true}}]
users: [{name: test, user: {token: "$1"}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
END
}

# The pause image, whose program sleeps and holds a Pod's namespaces.
pause_image() {
  local work=$dir/pause layer config
  mkdir -p "$work/root"
  cp "$(command -v busybox)" "$work/root/busybox"
  tar -C "$work/root" --sort=name --owner=0 --group=0 --mtime=@0 -cf "$work/layer.tar" .
  layer=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
  config='{"architecture":"'$(go env GOARCH)'","os":"linux","config":{"Entrypoint":["/busybox","sleep","2147483647"]},"rootfs":{"type":"layers","diff_ids":["sha256:'$layer'"]}}'
  echo "$config" >"$work/config.json"
  echo '[{"Config":"config.json","RepoTags":["localhost/pause:test"],"Layers":["layer.tar"]}]' >"$work/manifest.json"
  tar -C "$work" -cf "$dir/pause.tar" config.json layer.tar manifest.json
}

configure() {
  mkdir -p "$dir"/{certs,cni,logs}
  openssl genrsa -out "$dir/certs/sa.key" 2048 2>/dev/null
  # The second user has no rights. Tests grant it those that the docs name.
  printf '%s,admin,admin,system:masters\n%s,toolroom,toolroom\n' "$(openssl rand -hex 16)" "$(openssl rand -hex 16)" >"$dir/tokens.csv"
  kubeconfig "$(sed -n 1p "$dir/tokens.csv" | cut -d, -f1)" >"$dir/kubeconfig"
  kubeconfig "$(sed -n 2p "$dir/tokens.csv" | cut -d, -f1)" >"$dir/kubeconfig-toolroom"
  chmod 600 "$dir"/tokens.csv "$dir"/kubeconfig*
  cat >"$dir/cni/10-ptp.conflist" <<END
{"cniVersion": "1.0.0", "name": "toolroom-test", "plugins": [{"type": "ptp",
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "$dir/ipam"}}]}
END
  cat >"$dir/containerd.toml" <<END
version = 3
root = "$dir/containerd"
state = "$dir/containerd-state"
[grpc]
  address = "$dir/containerd.sock"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "localhost/pause:test"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  disable_apparmor = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["/usr/lib/cni"]
  conf_dir = "$dir/cni"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  BinaryName = "$(command -v runc)"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runsc]
  runtime_type = "io.containerd.runsc.v1"
END
  cat >"$dir/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: 11250
healthzPort: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix://$dir/containerd.sock
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
oomScoreAdj: 0
podLogsDir: $dir/pod-logs
podPidsLimit: $pids
resolvConf: ""
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 50Mi, nodefs.available: "1%", imagefs.available: "1%"}
END
}

start() {
  [ ! -e "$dir/pids" ] || { echo "$dir has a node already: stop it first" >&2; exit 1; }
  mkdir -p "$dir"
  trap 'stop_processes' ERR
  configure
  pause_image
  launch containerd containerd -c "$dir/containerd.toml"
  launch etcd etcd --data-dir "$dir/etcd" --listen-client-urls http://127.0.0.1:23790 --advertise-client-urls http://127.0.0.1:23790 \
    --listen-peer-urls http://127.0.0.1:23800 --initial-advertise-peer-urls http://127.0.0.1:23800 --initial-cluster default=http://127.0.0.1:23800
  launch apiserver kube-apiserver --etcd-servers http://127.0.0.1:23790 --bind-address 127.0.0.1 --secure-port 16443 \
    --cert-dir "$dir/certs/api" --token-auth-file "$dir/tokens.csv" --authorization-mode RBAC --advertise-address 127.0.0.1 \
    --service-account-issuer https://local --service-account-key-file "$dir/certs/sa.key" --service-account-signing-key-file "$dir/certs/sa.key" \
    --service-cluster-ip-range 10.0.0.0/24 --endpoint-reconciler-type none
  until_ready "the API server" ask /readyz
  launch controller-manager kube-controller-manager --kubeconfig "$dir/kubeconfig" --service-account-private-key-file "$dir/certs/sa.key" \
    --leader-elect=false --secure-port 16257 --bind-address 127.0.0.1 --cert-dir "$dir/certs/manager"
  launch scheduler kube-scheduler --kubeconfig "$dir/kubeconfig" --leader-elect=false --secure-port 16259 --bind-address 127.0.0.1
  until_ready containerd ctr -a "$dir/containerd.sock" version
  ctr -a "$dir/containerd.sock" -n k8s.io images import "$dir/pause.tar" >/dev/null
  launch kubelet kubelet --config "$dir/kubelet.yaml" --kubeconfig "$dir/kubeconfig" --hostname-override 127.0.0.1 \
    --root-dir "$dir/kubelet" --cert-dir "$dir/certs/kubelet"
  until_ready "the node" node_ready
  trap - ERR
  echo "$dir/kubeconfig"
}

# end PID: end a process, by force after ten seconds.
end() {
  kill "$1" 2>/dev/null || return 0
  for _ in $(seq 100); do
    kill -0 "$1" 2>/dev/null || return 0
    sleep .1
  done
  kill -9 "$1" 2>/dev/null || true
}

# Stop processes in reverse order, so that none is started again meanwhile. Shims outlive
# containerd: those that remain did not respond to it, and are ended with their containers.
stop_processes() {
  local pid
  [ -e "$dir/pids" ] || return 0
  for pid in $(tac "$dir/pids"); do
    end "$pid"
  done
  for pid in $(pgrep -f -- "^[^ ]*/containerd-shim.* -address $dir/containerd\.sock"); do
    pkill -9 -P "$pid" || true
    kill -9 "$pid" 2>/dev/null || true
  done
  rm -f "$dir/pids"
}

# containerd ends the remaining Pods before it ends itself.
stop() {
  local task
  if [ -S "$dir/containerd.sock" ]; then
    end "$(tail -1 "$dir/pids")" # the kubelet, which would start them again
    for task in $(timeout 10 ctr -a "$dir/containerd.sock" -n k8s.io tasks list -q 2>/dev/null); do
      timeout 10 ctr -a "$dir/containerd.sock" -n k8s.io tasks delete -f "$task" >/dev/null 2>&1 || true
    done
  fi
  stop_processes
  # Unmount the mounts of Pods and containers, the deepest first.
  awk -v dir="$dir/" 'index($5, dir) == 1 { print $5 }' /proc/self/mountinfo | sort -r | xargs -r -n1 umount -l
  local address
  for address in "$dir"/ipam/toolroom-test/10.*; do
    [ ! -e "$address" ] || ip route del "${address##*/}" 2>/dev/null || true
  done
  rm -rf "$dir"
}

command=${1:-}
pids=64
case $command in
install) install ;;
start | stop)
  [ -n "${2:-}" ] || { echo "usage: $0 $command DIR" >&2; exit 2; }
  dir=$(realpath -m "$2")
  "$command"
  ;;
test | gvisor)
  [ "$command" = test ] || { pids=512; set -- "$@" -run TestARuntimeClass; }
  shift
  install
  dir=$(mktemp -d)
  chmod 755 "$dir"
  trap stop EXIT
  start
  TOOLROOM_TEST_KUBERNETES=$dir TOOLROOM_TEST_KUBERNETES_PIDS=$pids go -C drivers test -tags integration -count=1 -timeout 30m "$@" ./test/kubernetes/
  ;;
*)
  sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
  exit 2
  ;;
esac
