#!/bin/sh
# What Tansy looks at before saying good morning. Prints, and changes nothing.
set -eu
cd "$(dirname "$0")/.."

for need in MEMORY.md SOUL.md state/session.json; do
    if [ ! -s "$need" ]; then
        echo "missing: $need - say so, and do not write a new one" >&2
        exit 1
    fi
done

newest=$(ls notes | grep '^2026-' | sort | tail -n 1)
echo "newest note: $newest"
echo "people: $(ls people | wc -l | tr -d ' ')"
echo "still open: $(grep -c ',,' ledger/loans-2026.csv) loans"
sed -n '/^## Open/,$p' MEMORY.md
