#!/usr/bin/env bash
# Prints the figures of docs/benchmarks.md, all from one run on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"; [ -z "${server:-}" ] || kill "$server" 2>/dev/null || true' EXIT

echo "machine: $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg), $(go version | cut -d' ' -f3-)"

echo; echo "== a call in process (goal: 10 µs and 20 allocations beyond the handler's)"
go test -run '^$' -bench 'BenchmarkCall' -benchmem -benchtime 1s ./internal/run | grep ^Benchmark
go test -run '^$' -bench . -benchmem -benchtime 1s ./internal/app | grep ^Benchmark

echo; echo "== search (goals: p99 1 ms at 5,000 tools, 10 ms at 50,000; adding one under 1 ms)"
go test -run '^$' -bench . ./internal/search | grep ^Benchmark

# least prints the fastest run of each benchmark, because other load on the machine can
# only add to a time.
least() { awk '/^Benchmark/ {if (!($1 in t)) n[++k]=$1; if (!($1 in t) || $3 < t[$1]) {t[$1]=$3; line[$1]=$0}} END {for (i=1; i<=k; i++) print line[n[i]]}'; }

echo; echo "== schema and JSON"
go test -run '^$' -bench . -benchmem -benchtime 200ms ./internal/schema ./internal/jsonx | grep ^Benchmark

echo; echo "== on one processor, the least of 40 short runs: what a call would do, the egress guard (a request with and without it)"
go test -run '^$' -cpu 1 -count 40 -bench . -benchmem -benchtime 15ms ./internal/effects/... ./internal/egress | least

# cpu prints the CPU time of one operation of a benchmark in µs: the time of many
# operations minus that of one, the minimum of three runs. Other processes do not count.
cpu() {
  local binary=$1 name=$2 n=$3 TIMEFORMAT='%U %S' least=
  for _ in 1 2 3; do
    local times=()
    for k in "$n" 1; do
      times+=("$({ time "$binary" -test.run '^$' -test.cpu 1 -test.bench "$name" -test.benchtime "${k}x" >/dev/null; } 2>&1 | awk '{print $1 + $2}')")
    done
    least=$(awk -v a="${times[0]}" -v b="${times[1]}" -v n="$n" -v l="${least:-1e9}" 'BEGIN {t = (a - b) * 1e6 / n; printf "%.2f", t < l ? t : l}')
  done
  echo "$least"
}
go test -c -o "$work/" ./internal/policy/cedar ./internal/secret
echo; echo "== processor time of a decision (goal: 20 µs with 100 rules)"
for run in "arguments 20000" "settled 500000" "first 10000"; do
  set -- $run
  echo "$1: $(cpu "$work/cedar.test" "BenchmarkDecide/^$1\$" "$2") µs"
done
echo; echo "== redaction, by processor time (goal: 200 MB/s)"
for secrets in 10 100 1000; do
  for shape in "" ",_in_base64" "_as_a_stream" ",_in_JSON" ",_one_in_each_line"; do
    case $shape in ,_one_in_each_line) bytes=184000 ;; ,_in_JSON) bytes=171000 ;; *) bytes=140000 ;; esac
    echo "$secrets secrets$shape: $(cpu "$work/secret.test" "BenchmarkRedact/^${secrets}_secrets$shape\$" 1000 | awk -v b="$bytes" '{printf "%.0f MB/s", b / $1}')"
  done
done

echo; echo "== code mode: least, p50 and p99 of single runs, memory of one more instance (goals, p50: js 60 µs, py-lite 150 µs, py 1.5 ms, py-native 3 ms); load $(cut -d' ' -f1-3 /proc/loadavg)"
engines=./internal/engine
for run in "js BenchmarkInWorker 2s" "monty BenchmarkInWorker 2s" "py BenchmarkInWorker 2s" "pynative Benchmark 2s" "hosted Benchmark 20x"; do
  set -- $run
  # Limit the time, not the count: a thousand calls take a thousand times as long as one.
  go test -run '^$' -bench "$2" -benchtime "$3" -timeout 30m "$engines/$1" | grep ^Benchmark | sed "s/^Benchmark/$1 /"
done

echo; echo "== sandboxes: cold start, and warm start to a program's first word (goals: 15 ms, process 2 ms); engines that are not here are left out"
if [ "$(id -u)" = 0 ] && command -v mmdebstrap >/dev/null; then
  go -C drivers test -tags integration -run '^$' -bench 'WarmStart' -benchtime 20x ./test/runtimes | grep ^Benchmark
  echo "-- beside the bare engine, in turn; a call of a tool; memory for each guest that waits"
  go -C drivers test -tags integration -run '^$' -bench 'ColdStart' -benchtime 12x ./test/runtimes | grep ^Benchmark
  go -C drivers test -tags integration -run '^$' -bench 'HostCall|Memory' -benchtime 2x ./test/runtimes | grep ^Benchmark
else
  echo "left out: needs root and mmdebstrap"
fi

echo; echo "== start to ready (goal: 100 ms) and idle memory with 500 tools (goal: 45 MB)"
{
  echo 'server: {listen: 127.0.0.1:0}'
  echo 'sources: {many: {http: {base_url: "http://127.0.0.1:9", tools: ['
  for i in $(seq 500); do
    echo "{name: tool_$i, description: 'Tool number $i looks up something in a table', input_schema: {type: object, properties: {id: {type: integer}, name: {type: string}}, required: [id]}},"
  done
  echo ']}}}'
} >"$work/toolroom.yaml"
times=()
for _ in $(seq 10); do
  rm -rf "$work/home"
  before=$(date +%s%N)
  bin/toolroom --home "$work/home" --config "$work/toolroom.yaml" serve >"$work/log" 2>&1 &
  server=$!
  until grep -q ready "$work/log"; do sleep 0.002; done
  times+=($(( ($(date +%s%N) - before) / 1000 )))
  if [ ${#times[@]} -eq 10 ]; then
    sleep 5 # after two seconds a server gives back what its start needed
    echo "idle memory: $(awk '/VmRSS/{printf "%.1f MB", $2/1024}' "/proc/$server/status"), $(ls "/proc/$server/task" | wc -l) threads"
  fi
  kill "$server"; wait "$server" 2>/dev/null || true
  server=
done
printf '%s\n' "${times[@]}" | sort -n | awk '{a[NR]=$1} END {printf "start to ready: median %.1f ms, best %.1f, worst %.1f (n=%d, a new home each time)\n", (a[5]+a[6])/2000, a[1]/1000, a[NR]/1000, NR}'
