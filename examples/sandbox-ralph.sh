#!/bin/sh
# sandbox-ralph.sh COMMAND [DIR] [ITERATIONS] [AGENT]: has AGENT work at DIR/PROMPT.md until
# COMMAND, such as 'make test', ends with 0. Nothing of it reaches DIR before bothy apply.
exec bothy loop run --workspace review --until "${1:?a command that ends with 0 when the work is done}" --max-iterations "${3:-30}" --agent "${4:-claude}" -f "${2:-.}/PROMPT.md" "${2:-.}"
