package main

// workloads are typical work on files. Every script runs in a directory of its own with the files
// of the seed.
var workloads = []workload{
	{
		name:  "repo",
		needs: []string{"git", "rg", "tar", "find", "sort", "xargs", "sha256sum"},
		seed:  seedRepo,
		jobs: []job{
			{
				name: "git status, 20k files",
				once: "git -C repo status >/dev/null", // the index learns the inodes of this place
				run:  "git -C repo status --porcelain --branch >status",
				// The seed changed some files: an empty status would prove nothing.
				check: "grep -q ' M ' status; grep -q ' D ' status; grep -q '??' status; sha256sum <status",
			},
			{
				name:   "untar 20k files",
				before: "rm -rf tree; mkdir tree",
				run:    "tar --no-same-owner -xf files.tar -C tree",
				check:  "cd tree; find . -type f | wc -l; find . -type f | LC_ALL=C sort | xargs sha256sum | sha256sum",
			},
			{
				name: "append 1500 lines, a file opened for each",
				run:  "rm -f log; i=0; while [ $i -lt 1500 ]; do echo line >>log; i=$((i+1)); done",

				check: "sha256sum <log",
			},
			{
				name:  "ripgrep, 20k files",
				run:   "rg --no-config --count 'lantern (house|boat)' repo >found",
				check: "wc -l <found; LC_ALL=C sort found | sha256sum",
			},
		},
	},
	{
		name:  "npm",
		needs: []string{"node", "npm", "find", "sort", "xargs", "sha256sum"},
		seed:  seedNPM,
		jobs: []job{{
			name:   "npm ci, offline",
			before: "rm -rf node_modules .cache",
			run:    "npm ci --offline --no-audit --no-fund --ignore-scripts --no-update-notifier --loglevel=error --cache=$PWD/.cache >/dev/null",
			check:  "find node_modules -type f | wc -l; find node_modules -type f | LC_ALL=C sort | xargs sha256sum | sha256sum",
		}},
	},
	{
		name:  "go",
		needs: []string{"go", "sha256sum"},
		seed:  seedGo,
		jobs: []job{{
			name:   "go build, cold cache",
			before: "rm -rf .gocache app",
			run: "GOCACHE=$PWD/.gocache GOENV=off GOTOOLCHAIN=local GOPROXY=off GOFLAGS=-mod=vendor CGO_ENABLED=0 " +
				"go build -trimpath -buildvcs=false -o app .",
			check: "./app; sha256sum <app",
		}},
	},
	{
		name:  "sqlite",
		needs: []string{"sqlite3"},
		seed:  seedSQLite,
		jobs: []job{
			{
				name:   "sqlite, 500 transactions",
				before: "rm -f one.db*; sqlite3 one.db 'create table t(a integer primary key, b text)'",
				run:    "sqlite3 one.db <single.sql",
				check:  "sqlite3 one.db 'pragma integrity_check; select count(*), sum(a), max(b) from t'",
			},
			{
				name:   "sqlite, 300k rows at once",
				before: "rm -f bulk.db*; sqlite3 bulk.db 'create table t(a integer primary key, b text); create index i on t(b)'",
				run:    "sqlite3 bulk.db <bulk.sql",
				check:  "sqlite3 bulk.db 'pragma integrity_check; select count(*), sum(a), max(b) from t'",
			},
		},
	},
}
