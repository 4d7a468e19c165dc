#!/bin/sh
# toolroom:
#   description: Greet someone.
#   parameters:
#     who: {type: string, description: Who to greet.}
#     times: {type: integer, minimum: 1, default: 1, description: How often.}
#   cases:
#     - {name: one greeting, arguments: {who: Ada}, expect: "Hello, Ada!"}
set -eu

greeting="Hello, $ARG_WHO!"
all=$greeting
while [ "$ARG_TIMES" -gt 1 ]; do
  all="$all $greeting"
  ARG_TIMES=$((ARG_TIMES - 1))
done
printf '%s\n' "$all"
