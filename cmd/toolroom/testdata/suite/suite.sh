set -eu
case $TOOLROOM_TOOL in
fn:echo) sed 's/^{"v"://; s/}$//' ;;
fn:defaults) echo "$ARG_A$ARG_B" ;;
fn:boom) echo "the reason" >&2; exit 3 ;;
fn:nan) echo '{"a": [NaN]}' ;;
fn:cycle) i=0; while [ $i -lt 200 ]; do printf '['; i=$((i + 1)); done ;;
fn:surrogate) printf '%s' '"\ud800"' ;;
fn:wrong) echo '"text"' ;;
fn:big) echo 9223372036854775808 ;;
fn:huge) head -c 100000000 /dev/zero | tr '\0' x ;;
fn:count) i=0; while [ $i -lt "$ARG_N" ]; do [ $i = 0 ] || echo; printf $i; i=$((i + 1)); done ;;
fn:add) echo $((ARG_A + ARG_B)) ;;
fn:sum_all)
  total=0
  for v in $(echo "$ARG_VALUES" | tr -d '[]' | tr ',' ' '); do total=$(tool fn:add a:="$total" b:="$v"); done
  echo "$total" ;;
fn:itself) tool fn:itself ;;
fn:forever) while :; do :; done ;;
fn:token_length) printf '%s' "$SECRET_SHOP_TOKEN" | wc -c ;;
fn:tell) echo "$SECRET_SHOP_TOKEN" ;;
fn:undeclared) echo "$SECRET_SHOP_TOKEN" ;;
fn:about)
  greeting=$(echo "$TOOLROOM_CONFIG" | sed 's/.*"greeting":"\([^"]*\)".*/\1/')
  printf '{"greeting":"%s","env":"%s","call":"%.5s"}' "$greeting" "$TOOLROOM_ENVIRONMENT" "$TOOLROOM_CALL" ;;
fn:report) tool progress 1 2 half; tool log careful warning ;;
fn:keep) tool get "$(printf abc | tool put a.txt text/plain)" ;;
fn:leak)
  echo "the log of $ARG_SECRET" >&2
  found=$(cat ./leak-* ../leak-* /tmp/leak-* /dev/shm/leak-* /var/tmp/leak-* "$HOME"/leak-* 2>/dev/null || :)
  for at in . .. /tmp /dev/shm /var/tmp "$HOME"; do { echo "$ARG_SECRET" > "$at/leak-$ARG_SECRET"; } 2>/dev/null || :; done
  others=$(cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | grep '^ARG_SECRET=' | grep -v "$ARG_SECRET" || :)
  sleep 5 >/dev/null 2>&1 &
  if [ -n "$found$others" ]; then printf '["found"]'; else echo '[]'; fi ;;
fn:flood) while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done ;;
fn:hog) x=x; while :; do x=$x$x; done ;;
esac
