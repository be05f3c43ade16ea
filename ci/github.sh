#!/usr/bin/env bash
# The check of action.yml. Annotations and the log go to stdout, Markdown to the job's summary.
set -euo pipefail

report="$RUNNER_TEMP/modelcheck.md"
paths=()
while IFS= read -r path; do
  [[ -z "$path" ]] || paths+=("$path")
done <<<"$INPUT_PATH"
trust=() # macOS has bash 3.2, to which an empty array is unset
[[ "$INPUT_TRUST_REMOTE_CODE" != true ]] || trust=(--trust-remote-code)

# What follows the first call is text, and no command to the runner, until the second.
token="$(python -c 'import secrets; print(secrets.token_hex(16))')"
quote() { echo "::stop-commands::$token"; }
unquote() { echo "::$token::"; }

status=0
rm -f "$report"
case "$INPUT_COMMAND" in
scan)
  options=(${INPUT_VLLM:+--vllm "$INPUT_VLLM"})
  modelcheck scan ${options[@]+"${options[@]}"} --output-format github -- "${paths[@]}" || status=$?
  # The same once more for the summary: what was wrong has been said.
  modelcheck scan ${options[@]+"${options[@]}"} --output-format markdown --output-file "$report" \
    -- "${paths[@]}" 2>/dev/null || true
  ;;
publish-check)
  quote
  modelcheck publish-check ${INPUT_VLLM:+--vllm "$INPUT_VLLM"} ${trust[@]+"${trust[@]}"} \
    ${INPUT_BADGE:+--badge "$INPUT_BADGE"} --markdown "$report" -- "${paths[@]}" || status=$?
  unquote
  ;;
gate)
  quote
  modelcheck gate ${INPUT_VLLM:+--matrix "$INPUT_VLLM"} ${trust[@]+"${trust[@]}"} -- "${paths[@]}" |
    tee "$RUNNER_TEMP/modelcheck.txt" || status=$?
  unquote
  printf '### modelcheck gate\n\n~~~~\n%s\n~~~~\n' "$(<"$RUNNER_TEMP/modelcheck.txt")" >"$report"
  ;;
*)
  printf '::error::modelcheck: command is %q, not scan, gate or publish-check\n' "$INPUT_COMMAND"
  status=2
  ;;
esac

[[ ! -f "$report" ]] || cat "$report" >>"$GITHUB_STEP_SUMMARY"
printf 'status=%s\nreport=%s\n' "$status" "$report" >>"$GITHUB_OUTPUT"
if ((status > 1)) || [[ "$INPUT_FAIL" != false ]]; then
  exit "$status"
fi
