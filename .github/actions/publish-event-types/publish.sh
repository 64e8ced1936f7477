#!/usr/bin/env bash
# Shows the plan of a file of event types, and applies it unless APPLY is false. The client's version is that of the action.
set -uo pipefail
client() { npx --yes breakwater-client@0.4.0 "$@"; }

flags=(-f "$FILE")
[ "${PRUNE:-false}" != true ] || flags+=(--prune)
plan=$(client apply "${flags[@]}")
code=$?
case $code in
  0) changes=false ;;
  8) changes=true ;;
  *) exit "$code" ;;
esac
echo "changes=$changes" >>"$GITHUB_OUTPUT"
{
  echo "### Event types of $FILE"
  echo
  if [ $changes = true ]; then printf '```\n%s\n```\n' "$plan"; else echo "Nothing to change."; fi
} >>"$GITHUB_STEP_SUMMARY"
printf '%s\n' "$plan"
if [ $changes = true ] && [ "${APPLY:-true}" = true ]; then client apply "${flags[@]}" --yes; fi
