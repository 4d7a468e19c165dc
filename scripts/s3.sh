#!/usr/bin/env bash
# Builds real servers of the S3 protocol from Go modules, MinIO and Versity Gateway, into
# ~/.cache/toolroom, and runs the tests of the pack storage against them. The first run takes
# about 500 CPU seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

minio=v0.0.0-20260212201848-7aac2a2c5b7c
versity=v1.8.0
bin=${XDG_CACHE_HOME:-$HOME/.cache}/toolroom/s3-$versity
mkdir -p "$bin"
[ -x "$bin/versitygw" ] || GOBIN=$bin GOFLAGS= nice -n 10 "${GO:-go}" install -ldflags "-s -w" "github.com/versity/versitygw/cmd/versitygw@$versity"
[ -x "$bin/minio" ] || GOBIN=$bin GOFLAGS= nice -n 10 "${GO:-go}" install -ldflags "-s -w" "github.com/minio/minio@$minio"
PATH=$bin:$PATH CI=true "${GO:-go}" test -tags integration -count=1 -timeout 10m -run RealServer "$@" ./internal/builtin/storage/
