#!/bin/sh
# UNTIL='make test' sandbox-ralph.sh [DIR] [ITERATIONS] [AGENT]: AGENT works on DIR/PROMPT.md until $UNTIL
# exits with 0. Changes reach DIR only with bothy apply. TEMPLATE, a directory with a Dockerfile or a
# devcontainer.json, is built first; without it the host's programs are used.
exec bothy loop run -t "${TEMPLATE:-host}" --workspace review --until "${UNTIL:?is to be a command that ends with 0 when the work is done}" --max-iterations "${2:-30}" --agent "${3:-claude-code}" -f "${1:-.}/PROMPT.md" "${1:-.}"
