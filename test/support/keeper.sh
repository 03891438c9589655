#!/usr/bin/env bash
# keeper.sh FOLDER: the parent of a test server's processes, so that none outlives the one who wanted them.
#
# It does what its standard input says, one line each, words parted by tabs, and answers each with one line. When that
# input ends, because its owner is done or has died in whatever way, everything it started is killed and FOLDER removed.
#
#   start NAME LOG COMMAND [WORD...]   starts a process                     -> started NAME PID
#   signal NAME SIGNAL                 sends it a signal                    -> signalled NAME
#   end NAME TICKS                     TERM, and KILL after TICKS of 50 ms  -> ended NAME
set -u
folder=$1
declare -A pids=()

start() {
  local name=$1 log=$2
  shift 2
  "$@" </dev/null >>"$log" 2>&1 &
  pids[$name]=$!
  echo "started $name $!"
}

# A process that has ended may have left its number to a stranger: only children of this shell are signalled.
is_child() {
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  set -- ${stat##*) }
  [ "$2" = "$$" ]
}

send() {
  local pid=${pids[$1]:-}
  if [ -n "$pid" ] && is_child "$pid"; then kill -"$2" "$pid" 2>/dev/null; fi
}

end() {
  send "$1" TERM
  send "$1" CONT
  for ((tick = 0; tick < $2; tick++)); do is_child "${pids[$1]:-none}" || break; sleep 0.05; done
  send "$1" KILL
  wait "${pids[$1]:-}" 2>/dev/null
  unset "pids[$1]"
}

end_all() {
  for name in "${!pids[@]}"; do send "$name" KILL; done
  wait
  rm -rf "$folder"
  exit
}
trap end_all TERM INT HUP

while IFS=$'\t' read -r -a words; do
  case ${words[0]} in
    start) start "${words[@]:1}" ;;
    signal) send "${words[1]}" "${words[2]}"; echo "signalled ${words[1]}" ;;
    end) end "${words[@]:1}"; echo "ended ${words[1]}" ;;
  esac
done
end_all
