#!/bin/sh
# Tries rules about calls of JSON-RPC (docs/guide/network-http.md) with a real server and a real client of
# MCP: @modelcontextprotocol/server-everything on this host, and the official SDK in a sandbox.
# Needs bothy, node and npm, and an address of this host's that is not its loopback, at which
# the server can be reached meanwhile, by others, too: it is started with nothing to tell them.
# Leaves nothing behind. Ends with 0 only if all is as it should be.
set -eu

source=$(cd "$(dirname "$0")" && pwd -P)
address=${1:-$(hostname -I | cut -d' ' -f1)}
port=${2:-39100}
tmp=$(mktemp -d)
BOTHY_HOME=$tmp/state
export BOTHY_HOME
server=

clean() {
	status=$?
	trap - EXIT
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	bothy reset -f >/dev/null 2>&1 || true
	rm -rf "$tmp"
	exit $status
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

mkdir "$tmp/client" "$tmp/server"
cp "$source/client.mjs" "$tmp/client/"
(cd "$tmp/client" && npm install --no-audit --no-fund --silent @modelcontextprotocol/sdk@1)
(cd "$tmp/server" && npm install --no-audit --no-fund --silent @modelcontextprotocol/server-everything@2026.8.31)
env -i PATH="$PATH" HOME="$tmp/server" PORT="$port" node "$tmp/server/node_modules/@modelcontextprotocol/server-everything/dist/index.js" streamableHttp >"$tmp/server.log" 2>&1 &
server=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do
	curl -s -o "$tmp/answer" "http://$address:$port/mcp" && break
	sleep 1
done

cd "$tmp/client"
bothy run --name mcp-try shell . -- true
bothy policy allow "$address:$port" --sandbox mcp-try --path /mcp --method POST --method GET --method DELETE \
	--rpc initialize --rpc 'notifications/*' --rpc ping --rpc tools/list --rpc 'tools/call echo' --rpc 'tools/call trigger-long*'
bothy exec mcp-try node client.mjs "http://$address:$port/mcp"
