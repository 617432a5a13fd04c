#!/usr/bin/env bash
# Makes the pictures of terminals in docs/cli.md: runs each command on a simulated cluster and writes
# what it printed as SVG. Usage: terminals.sh LARDER (the built command).
set -euo pipefail
larder=$(realpath "${1:?which larder?}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server"; rm -rf "$work"' EXIT
cd "$work"

# picture NAME LINES COMMAND...: at most LINES lines of what it prints.
picture() {
  local name=$1 lines=$2 shown
  shift 2
  shown="larder $*"
  { printf '$ %s\n' "${shown//"$work/"/}"; "$larder" "$@" 2>/dev/null | head -n "$lines"; } |
    awk '
      function escape(text) { gsub(/&/, "\\&amp;", text); gsub(/</, "\\&lt;", text); return text }
      { line[NR] = $0; if (length($0) > widest) widest = length($0) }
      END {
        width = widest * 8.5 + 32; height = NR * 18 + 28
        printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\">\n", width, height, width
        print "<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#101820\"/>"
        print "<g font-family=\"monospace\" font-size=\"14\" fill=\"#d7dee8\">"
        for (i = 1; i <= NR; i++) {
          printf "<text x=\"16\" y=\"%d\" xml:space=\"preserve\"%s textLength=\"%.1f\">%s</text>\n", i * 18 + 10, i == 1 ? " fill=\"#8fd694\"" : "", length(line[i]) * 8.5, escape(line[i])
        }
        print "</g></svg>"
      }' >"$here/terminal-$name.svg"
}

"$larder" simulate --objects 2000 --seed 7 >url &
server=$!
until [[ -s url ]]; do sleep 0.1; done
"$larder" run pods nodes ns --store store --server "$(cat url)" --until-synced \
  --index pods:node=spec.nodeName --index pods:label=app 2>/dev/null
picture get 9 get pods --store store -A -o wide --limit 8
picture stats 24 stats --store store
picture doctor 40 doctor --store store
picture demo 20 demo --objects 5000
