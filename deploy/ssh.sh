#!/bin/bash
# Trains on machines that ssh reaches without a password, one worker on each with all its GPUs. The
# arguments are flags of ut-trainer:
#   HOSTS="host0 host1" deploy/ssh.sh --problem=babi_qa --hparams_set=ut_base --output_dir=/shared/run
# The command runs in DIRECTORY (default: this one) on every host. If a worker ends badly, the others
# are ended, and all start again from the last checkpoint.
set -uo pipefail

HOSTS=${HOSTS:?set HOSTS to the names of the machines, with blanks between}
PORT=${PORT:-2222}
DIRECTORY=${DIRECTORY:-$PWD}
RESTARTS=${RESTARTS:-20}
PAUSE=${PAUSE:-30}
read -r -a hosts <<<"$HOSTS"

workers=""
for host in "${hosts[@]}"; do
  workers+="${workers:+, }\"$host:$PORT\""
done

train() {
  local index=$1 config command
  shift
  config="{\"cluster\": {\"worker\": [$workers]}, \"task\": {\"type\": \"worker\", \"index\": $index}}"
  printf -v command '%q ' env TF_CONFIG="$config" ut-trainer --cluster=tf_config "$@"
  # A terminal: when the connection ends, so does the command.
  exec ssh -tt "${hosts[$index]}" "cd $(printf '%q' "$DIRECTORY") && $command" </dev/null
}

stop() {
  kill "${processes[@]}" 2>/dev/null
  wait
}

for ((attempt = 0; attempt <= RESTARTS; attempt++)); do
  processes=()
  for index in "${!hosts[@]}"; do
    train "$index" "$@" &
    processes+=($!)
  done
  trap 'stop; exit 130' INT TERM
  status=0
  for _ in "${processes[@]}"; do
    wait -n || { status=$?; break; }
  done
  [ "$status" -eq 0 ] && exit 0
  stop
  case $status in 2 | 130) exit "$status" ;; esac
  echo "attempt $attempt ended with status $status; starting again from the last checkpoint" >&2
  sleep "$PAUSE"
done
exit "$status"
