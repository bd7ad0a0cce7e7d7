# shellcheck shell=bash
# Prepares the machine for .ci/run, which sources this: packages, an ordinary user, huge pages. All but
# the packages is undone at the end.

user=bothy-ci
home=/var/lib/$user

# packages installs the programs that the tests use: each with the package that brings it.
packages() {
	local pair missing=()
	for pair in git:git patch:patch rg:ripgrep bwrap:bubblewrap runc:runc tmux:tmux sqlite3:sqlite3 \
		busybox:busybox-static unshare:util-linux runuser:util-linux script:bsdutils \
		python3:python3 npm:npm gcc:gcc ps:procps useradd:passwd strace:strace \
		curl:curl wget:wget openssl:openssl ssh:openssh-client rsync:rsync javac:default-jdk-headless \
		tinyproxy:tinyproxy /usr/sbin/squid:squid-openssl /usr/sbin/dockerd:docker.io docker-compose:docker-compose podman:podman; do
		command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
	done
	[[ -e /usr/include/stdlib.h ]] || missing+=(libc6-dev)
	[[ -s /etc/ssl/certs/ca-certificates.crt ]] || missing+=(ca-certificates)
	# Sandboxes see /usr.
	[[ -e /usr/bin/pip ]] || missing+=(python3-pip)
	/usr/bin/python3 -c 'import requests' 2>/dev/null || missing+=(python3-requests)
	if ((${#missing[@]})) || ! command -v docker >/dev/null; then
		apt-get update -q
	fi
	if ((${#missing[@]})); then
		apt-get install -yq --no-install-recommends "${missing[@]}"
	fi
	command -v docker >/dev/null ||
		apt-get install -yq --no-install-recommends docker-cli ||
		apt-get install -yq --no-install-recommends docker.io
	command -v deno >/dev/null || npm install --global --no-audit --no-fund bun deno
}

# as_user COMMAND... runs a command as the ordinary user, in their copy of the tree.
as_user() {
	runuser -u "$user" -- env -i HOME="$home" USER="$user" LOGNAME="$user" SHELL=/bin/bash \
		PATH="$PATH" LANG="$LANG" CI=true BOTHY_TEST_COMPLETE=1 BOTHY_TEST_CALLERS=user CGO_ENABLED=0 GOFLAGS="$GOFLAGS" \
		GOMODCACHE="$GOMODCACHE" GOCACHE="$GOCACHE" GOPROXY=off \
		BOTHY_TEST_BIN="$BOTHY_TEST_BIN" BOTHY_TEST_BINARY="$BOTHY_TEST_BINARY" \
		sh -c 'cd "$HOME/bothy" && "$@"' sh "$@"
}

# make_user makes the user and their copy of this tree. Root works in that copy first, because the
# results of compiling in one directory are of no use in another.
make_user() {
	remove_user
	useradd --create-home --home-dir "$home" --shell /bin/bash "$user"
	chmod 755 "$home"
	mkdir "$home/bothy" "$home/bin"
	git ls-files -coz --exclude-standard | tar c --null -T - --ignore-failed-read | tar x -C "$home/bothy"
	git -C "$home/bothy" init -q
}

# hand_over gives the user the tree and all that root compiled.
hand_over() { chown -R "$user": "$home"; }

remove_user() {
	id "$user" >/dev/null 2>&1 || return 0
	pkill -KILL -u "$user" || true
	userdel -r "$user" 2>/dev/null || true
	chmod -R u+w "$home" 2>/dev/null || true
	rm -rf "$home"
}

# huge_pages turns huge pages on. Where a page fault costs 20 µs, as in some virtual machines, they save a
# third of the whole run's time. Most distributions have them on.
huge=/sys/kernel/mm/transparent_hugepage/enabled
before=
huge_pages() {
	[[ -w $huge ]] || { echo "not here"; return 0; }
	before=$(sed 's/.*\[\(.*\)\].*/\1/' "$huge")
	echo always >"$huge" || { echo "not permitted"; before=; }
	cat "$huge"
}

clean_up() {
	[[ -z $before ]] || echo "$before" >"$huge"
	remove_user
}
trap clean_up EXIT

# nothing_left fails if the user still has processes. Zombies do not count: the host's pid 1 has not
# collected them yet.
nothing_left() {
	local left
	for _ in 1 2 3 4 5; do
		left=$(ps -u "$user" -o pid=,stat=,args= | awk '$2 !~ /^Z/')
		[[ -n $left ]] || return 0
		sleep 1
	done
	echo "left behind:"
	echo "$left"
	return 1
}
