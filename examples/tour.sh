#!/bin/sh
# A tour: builds bothy, runs it on the current directory, and shows how a sandbox works. Needs Go and git.
# Leaves nothing behind. Exits with 0 only if everything that it prints is true.
set -eu

source=$(cd "$(dirname "$0")/.." && pwd -P)
here=$(pwd -P)
tmp=$(mktemp -d)
note=.bothy-tour-$$ # a file in the workspace, written inside
canary=${HOME:?}/.bothy-tour-canary-$$
BOTHY_HOME=$tmp/state
export BOTHY_HOME

clean() {
	status=$?
	trap - EXIT
	[ ! -x "$tmp/bothy" ] || "$tmp/bothy" reset -f >/dev/null 2>&1 || true
	rm -rf "$tmp" "$here/$note" "$canary"
	exit $status
}
trap clean EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

echo "building bothy ..."
(cd "$source" && CGO_ENABLED=0 go build -o "$tmp/" ./cmd/...)
(umask 077 && echo "secret of $(id -un)" >"$canary")

# The script that runs inside. It gets two arguments and prints one fact per line.
# shellcheck disable=SC2016
inside='
echo "kernel $(uname -sr)"
echo "user $(id -un), and $(sudo id -un) by sudo"
echo "hello from inside" >"$1"
echo "wrote"
i=0
until [ "$(cat "$1")" = "hello from the host" ] || [ $i -ge 100 ]; do sleep 0.05; i=$((i + 1)); done
echo "answer $(cat "$1")"
if cat "$2" 2>/dev/null; then echo "home seen"; else echo "home hidden"; fi
echo "interfaces" $(sed -n "s/^ *\([^ :]*\):.*/\1/p" /proc/net/dev)
soon=$(command -v timeout) && soon="$soon 10"
if command -v git >/dev/null; then
	if said=$($soon git -C / ls-remote git://1.1.1.1/x 2>&1); then echo "reached 1.1.1.1"; fi
else
	if said=$($soon bash -c "exec 3<>/dev/tcp/1.1.1.1/443" 2>&1); then echo "reached 1.1.1.1"; fi
fi
echo "connect" $said
'

bad=0
tell() { # tell RESULT NAME TEXT...
	case $1 in true) mark="ok " ;; *) mark="BAD" bad=1 ;; esac
	shift
	printf '  %s  %-10s %s\n' "$mark" "$1" "$2"
}
is() { if [ "$@" ]; then echo true; else echo false; fi; }

printf '\n%s, in a sandbox:\n' "$here"
mkfifo "$tmp/facts"
"$tmp/bothy" run --rm shell . -- sh -c "$inside" tour "$note" "$canary" >"$tmp/facts" </dev/null &
run=$!
told=0
while read -r fact value; do
	told=$((told + 1))
	case $fact in
	kernel)
		tell "$(is "$value" != "$(uname -sr)")" kernel "$value inside, $(uname -sr) outside: a kernel of its own"
		;;
	user)
		tell true user "$value: root inside, nobody outside"
		;;
	wrote)
		read -r seen <"$here/$note" || seen=nothing
		echo "hello from the host" >"$here/$note"
		tell "$(is "$seen" = "hello from inside")" workspace "written inside, read on the host at once: \"$seen\""
		;;
	answer)
		tell "$(is "$value" = "hello from the host")" workspace "written on the host, read inside at once: \"$value\""
		;;
	home)
		tell "$(is "$value" = hidden)" home "a file in your home ($canary) is $value inside"
		;;
	interfaces)
		tell "$(is "$value" = "lo eth0")" network "interfaces inside: $value; the other end of eth0 is bothy itself"
		;;
	connect)
		case $value in *refused*) ok=true ;; *) ok=false ;; esac
		tell $ok "way out" "none: $value"
		;;
	*)
		tell false "$fact" "$value"
		;;
	esac
done <"$tmp/facts"
wait "$run" || bad=1
if [ "$told" -ne 7 ]; then
	echo "The sandbox did not run to its end. This host:" >&2
	"$tmp/bothy" doctor >&2 || true
	exit 1
fi
rm -f "$here/$note"
tell "$(is -z "$("$tmp/bothy" ls -q)")" after "the sandbox is gone, and your directory is as it was"

echo
if [ "$bad" -ne 0 ]; then
	echo "Not everything is as it should be." >&2
	exit 1
fi
cat <<EOF
All true. To keep it:  CGO_ENABLED=0 go install ./cmd/...
Then, in a project:   bothy run shell .
EOF
