#!/usr/bin/env bash
# Records the state that an older commit writes, as testdata/COMMIT.tar.gz, for TestOlder:
#
#     test/versions/record.sh COMMIT
#
# It builds that commit, makes a sandbox with it as root, and keeps the home directory and the state
# directory but for the cache, which holds a copy of the host's /etc. All of it lies below /tmp/bothy-old,
# for the state names absolute paths.
set -euo pipefail
[[ $EUID == 0 ]] || { echo "run it as root" >&2; exit 2; }
commit=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
base=/tmp/bothy-old
[[ ! -e $base ]] || { echo "$base exists: remove it" >&2; exit 1; }
tree=$(mktemp -d)
trap 'rm -rf "$tree" "$base"' EXIT
git -C "$(git -C "$here" rev-parse --show-toplevel)" archive "$commit" | tar -x -C "$tree"
(cd "$tree" && CGO_ENABLED=0 GOFLAGS=-buildvcs=false go build -o "$tree/bin/" ./cmd/...)
bothy=$tree/bin/bothy

mkdir -m 700 -p "$base/home/project" "$base/home/reviewed"
export HOME=$base/home BOTHY_HOME=$base/state
cd "$HOME/project"
git init -q
git -c user.name=N -c user.email=n@example.org commit -q --allow-empty -m first

echo value-of-a-secret | "$bothy" secret set npm
"$bothy" task add 'an old task'
"$bothy" policy allow example.net
"$bothy" create --name old shell .
"$bothy" policy allow example.com --sandbox old
"$bothy" secret lease npm --sandbox old
"$bothy" exec old sh -c "echo home > ~/kept; echo work > kept; sudo sh -c 'echo root > /usr/local/kept'"
"$bothy" checkpoint create old
"$bothy" checkpoint create --full old
"$bothy" exec old sh -c "echo later > ~/kept; echo later > kept; sudo sh -c 'echo later > /usr/local/kept'"
"$bothy" save old oldtemplate
"$bothy" stop old
"$bothy" create --name reviewed --workspace review shell ../reviewed
"$bothy" exec reviewed sh -c 'echo new > new'
"$bothy" stop reviewed
"$bothy" create --name cloned --workspace clone shell .

rm -rf "$BOTHY_HOME/cache"
tar -c --sparse -C "$base" --exclude='*.sock' home state | gzip -9 >"$here/testdata/$commit.tar.gz"
ls -l "$here/testdata/$commit.tar.gz"
