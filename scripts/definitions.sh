#!/bin/sh
# Adds the OpenAPI documents of GitHub, Stripe and Kubernetes, the largest real documents in
# registries, and fails if one of their texts is reported as suspicious.
# It needs Go, npm and about 600 MB. Usage: scripts/definitions.sh [toolroom]
set -eu
toolroom=$(realpath "${1:-bin/toolroom}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

npm pack --silent @octokit/openapi@23.0.2 >/dev/null
tar xzf octokit-openapi-*.tgz
folder() { GOFLAGS=-mod=mod go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p'; }
stripe=$(folder github.com/stripe/stripe-mock@v0.203.0)
kubernetes=$(folder k8s.io/kubernetes@v1.37.2)

export TOOLROOM_HOME="$work/home"
bad=0
look() { # name, document
	"$toolroom" sources add "$1" --openapi "$2" --base-url http://127.0.0.1:1 >/dev/null 2>&1
	if ! "$toolroom" sources test "$1" >"$1.out" 2>&1; then
		bad=1
	fi
	cat "$1.out"
	if grep -q '^suspicious' "$1.out"; then
		bad=1
	fi
	"$toolroom" sources remove "$1" >/dev/null 2>&1
}
look github package/generated/api.github.com.json
look stripe "$stripe/embedded/openapi/spec3.json"
n=0
for document in "$kubernetes"/api/openapi-spec/v3/*.json; do
	n=$((n + 1))
	look "kubernetes$n" "$document"
done
exit $bad
