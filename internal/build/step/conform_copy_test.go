package step

import "testing"

var copied = map[string]string{
	"foo.go 600": "foo", "bar.go": "bar", "run 755": "run", "sub/dir1/dir2/foo": "deep", "sub/ 700": "", "link": "-> sub/dir1", "up": "-> foo.go",
}

// TestConformCopy checks where COPY puts its files. Cases named testCopy… and others come
// from BuildKit's tests.
func TestConformCopy(t *testing.T) {
	conform(t, map[string]conformance{
		"file to name":     {text: "FROM base\nCOPY foo.go /x\n", context: copied, want: []string{`600 0:0 /x foo`}},
		"file to dir":      {text: "FROM base\nCOPY foo.go /x/\n", context: copied, want: []string{`755 0:0 /x/`, `600 0:0 /x/foo.go foo`}},
		"file to old dir":  {text: "FROM base\nCOPY foo.go /etc\n", context: copied, want: []string{`600 0:0 /etc/foo.go foo`}},
		"several":          {text: "FROM base\nCOPY foo.go bar.go /x/\n", context: copied, want: []string{`755 0:0 /x/`, `644 0:0 /x/bar.go bar`, `600 0:0 /x/foo.go foo`}},
		"several, no dir":  {text: "FROM base\nCOPY foo.go bar.go /x\n", context: copied, want: []string{`644 0:0 /x bar`}},
		"dir contents":     {text: "FROM base\nCOPY sub /x\n", context: copied, want: []string{`755 0:0 /x/`, `755 0:0 /x/dir1/`, `755 0:0 /x/dir1/dir2/`, `644 0:0 /x/dir1/dir2/foo deep`}},
		"dir into old dir": {text: "FROM base\nCOPY sub /etc\n", context: copied, want: []string{`755 0:0 /etc/dir1/`, `755 0:0 /etc/dir1/dir2/`, `644 0:0 /etc/dir1/dir2/foo deep`}},
		"dir and dot":      {text: "FROM base\nCOPY sub/dir1/. x\n", context: copied, want: []string{`755 0:0 /x/`, `755 0:0 /x/dir2/`, `644 0:0 /x/dir2/foo deep`}},
		"dot":              {text: "FROM base\nWORKDIR /w\nCOPY sub .\n", context: copied, want: []string{`755 0:0 /w/`, `755 0:0 /w/dir1/`, `755 0:0 /w/dir1/dir2/`, `644 0:0 /w/dir1/dir2/foo deep`}},
		"to a dot":         {text: "FROM base\nCOPY foo.go /x/.\n", context: copied, want: []string{`755 0:0 /x/`, `600 0:0 /x/foo.go foo`}},
		"to nothing":       {text: "FROM base\nENV empty=\"\"\nWORKDIR /w\nCOPY foo.go $empty\n", context: copied, want: []string{`755 0:0 /w/`, `600 0:0 /w/foo.go foo`}},
		"relative": {text: "FROM base\nWORKDIR /a\nWORKDIR b\nCOPY foo.go ./\nCOPY foo.go ./c/d\nWORKDIR ..\nCOPY foo.go ./\nWORKDIR /e/f\nCOPY foo.go ../\n", context: copied, want: []string{
			`755 0:0 /a/`, `755 0:0 /a/b/`, `755 0:0 /a/b/c/`, `600 0:0 /a/b/c/d foo`, `600 0:0 /a/b/foo.go foo`, `600 0:0 /a/foo.go foo`,
			`755 0:0 /e/`, `755 0:0 /e/f/`, `600 0:0 /e/foo.go foo`,
		}},
		"wildcard":             {text: "FROM base\nCOPY *.go /x/\n", context: copied, want: []string{`755 0:0 /x/`, `644 0:0 /x/bar.go bar`, `600 0:0 /x/foo.go foo`}},
		"wildcard to a name":   {text: "FROM base\nCOPY f*.go /x\n", context: copied, want: []string{`600 0:0 /x foo`}},
		"wildcard, characters": {text: "FROM base\nCOPY [bf]?[ro].go /x/\n", context: copied, want: []string{`755 0:0 /x/`, `644 0:0 /x/bar.go bar`, `600 0:0 /x/foo.go foo`}},
		"wildcard of dirs":     {text: "FROM base\nCOPY sub/* /x/\nCOPY sub/*/dir2/foo /y/\nCOPY sub/*/dir2/foo /z/bar\n", context: copied, want: []string{`755 0:0 /x/`, `755 0:0 /x/dir2/`, `644 0:0 /x/dir2/foo deep`, `755 0:0 /y/`, `644 0:0 /y/foo deep`, `755 0:0 /z/`, `644 0:0 /z/bar deep`}},
		"wildcard of none":     {text: "FROM base\nCOPY foo.go nomatch* /\n", context: copied, want: []string{`600 0:0 /foo.go foo`}},
		"escaped wildcard":     {text: "FROM base\nCOPY arr[[]0].txt /x/\n", context: map[string]string{"arr[0].txt": "a", "arr0.txt": "b"}, want: []string{`755 0:0 /x/`, `644 0:0 /x/arr[0].txt a`}},
		"missing":              {text: "FROM base\nCOPY nothing /\n", context: copied, fails: "nothing"},
		"missing dir":          {text: "FROM base\nCOPY nothing/foo /\n", context: copied, fails: "nothing"},
		"out of the context":   {text: "FROM base\nCOPY ../foo.go /\n", context: copied, want: []string{`600 0:0 /foo.go foo`}},
		"absolute":             {text: "FROM base\nCOPY /foo.go /\n", context: copied, want: []string{`600 0:0 /foo.go foo`}},
		"spaces":               {text: "FROM base\nCOPY [\"foo.go\", \"/c d/\"]\n", context: copied, want: []string{`755 0:0 /c d/`, `600 0:0 /c d/foo.go foo`}},
		"variable":             {text: "FROM base\nENV F=foo\nCOPY $F.go ${F}2\n", context: copied, want: []string{`600 0:0 /foo2 foo`}},
		"unicode":              {text: "FROM base\nCOPY test-äöü.txt /\n", context: map[string]string{"test-äöü.txt": "x"}, want: []string{`644 0:0 /test-äöü.txt x`}},
		"over a file":          {text: "FROM base\nCOPY foo.go /etc/group\n", context: copied, want: []string{`600 0:0 /etc/group foo`}},
		"twice":                {text: "FROM base\nCOPY sub sub\nCOPY sub sub\nCOPY foo.go sub/dir1/dir2/foo\n", context: copied, want: []string{`755 0:0 /sub/`, `755 0:0 /sub/dir1/`, `755 0:0 /sub/dir1/dir2/`, `600 0:0 /sub/dir1/dir2/foo foo`}},
		"file over a dir":      {text: "FROM base\nCOPY foo.go /x/bin\nCOPY bin /x/\n", context: map[string]string{"foo.go": "f", "bin/a": "a"}, want: []string{`755 0:0 /x/`, `644 0:0 /x/a a`, `644 0:0 /x/bin f`}},
		"dir over a file":      {text: "FROM base\nCOPY sub /etc/group\n", context: copied, fails: "cannot copy to non-directory"},
		"nested dir, file":     {text: "FROM base\nCOPY a /\n", context: map[string]string{"a/etc": "file"}, fails: "etc"},
		"setuid, sticky":       {text: "FROM base\nCOPY . /x/\n", context: map[string]string{"s 4755": "s", "t/ 1777": ""}, want: []string{`755 0:0 /x/`, `4755 0:0 /x/s s`, `1777 0:0 /x/t/`}},
		"hard links":           {text: "FROM base\nCOPY . /x/\nCOPY b /y\n", context: map[string]string{"a 600": "1", "b": "=> a", "d/c": "=> a"}, want: []string{`755 0:0 /x/`, `600 0:0 /x/a (3 names) 1`, `600 0:0 /x/b (3 names) 1`, `755 0:0 /x/d/`, `600 0:0 /x/d/c (3 names) 1`, `600 0:0 /y 1`}},
		"scratch":              {text: "FROM scratch\nCOPY foo.go /\n", context: copied, want: []string{`600 0:0 /foo.go foo`}},
	})
}

// TestConformLinks checks links among the copied files, on the way to them, and at the
// destination.
func TestConformLinks(t *testing.T) {
	links := map[string]string{
		"bar": "bar", "foo": "-> bar", "sub/lfile": "l", "sub/l0": "-> subfile", "sub/subfile": "s", "sub/l1": "-> second", "sub/second": "-> baz", "sub/baz": "b",
		"dir": "-> sub", "abs": "-> /sub/baz", "loop": "-> loop", "dangling": "-> nowhere",
	}
	conform(t, map[string]conformance{
		"a link":           {text: "FROM base\nCOPY foo /\n", context: links, want: []string{`644 0:0 /foo bar`}},
		"wildcard":         {text: "FROM base\nCOPY sub/l* all/\n", context: links, want: []string{`755 0:0 /all/`, `644 0:0 /all/l0 s`, `644 0:0 /all/l1 b`, `644 0:0 /all/lfile l`}},
		"through one":      {text: "FROM base\nCOPY dir/lfile /\n", context: links, want: []string{`644 0:0 /lfile l`}},
		"to a dir":         {text: "FROM base\nCOPY dir /x\n", context: links, want: []string{`755 0:0 /x/`, `644 0:0 /x/baz b`, `/x/l0 -> subfile`, `/x/l1 -> second`, `644 0:0 /x/lfile l`, `/x/second -> baz`, `644 0:0 /x/subfile s`}},
		"absolute":         {text: "FROM base\nCOPY abs /\n", context: links, want: []string{`644 0:0 /abs b`}},
		"in a dir":         {text: "FROM base\nCOPY a /a\n", context: map[string]string{"a/l": "-> ../../out", "a/m": "-> /abs"}, want: []string{`755 0:0 /a/`, `/a/l -> ../../out`, `/a/m -> /abs`}},
		"dangling":         {text: "FROM base\nCOPY dangling /\n", context: links, fails: "nowhere"},
		"to a loop":        {text: "FROM base\nCOPY loop /\n", context: links, fails: "too many links"},
		"of a stage":       {text: "FROM base\nCOPY --from=tree /links/abs/nested /links/rel/sub/nested /x/\n", want: []string{`755 0:0 /x/`, `640 102:202 /x/nested n`}},
		"to a link":        {text: "FROM existing\nCOPY bar /into/\n", context: links, want: []string{`755 0:0 /elsewhere/`, `644 0:0 /elsewhere/bar bar`}},
		"through a link":   {text: "FROM existing\nCOPY bar /var/run/x/y\n", context: links, want: []string{`755 0:0 /run/x/`, `644 0:0 /run/x/y bar`}},
		"to a dir by link": {text: "FROM existing\nCOPY bar /var/run\n", context: links, want: []string{`644 0:0 /run/bar bar`}},
		"dir onto a link":  {text: "FROM existing\nCOPY sub/baz /var/run/\nCOPY up /var\n", context: map[string]string{"sub/baz": "b", "up/run/z": "z"}, fails: "run"},
	})
}

func TestConformCopyFlags(t *testing.T) {
	conform(t, map[string]conformance{
		"chown name":          {text: "FROM base\nCOPY --chown=web foo.go /\n", context: copied, want: []string{`600 33:34 /foo.go foo`}},
		"chown id":            {text: "FROM base\nCOPY --chown=1000 foo.go /\n", context: copied, want: []string{`600 1000:1000 /foo.go foo`}},
		"chown both":          {text: "FROM base\nCOPY --chown=1000:staff foo.go /\n", context: copied, want: []string{`600 1000:50 /foo.go foo`}},
		"chown name and id":   {text: "FROM base\nCOPY --chown=web:7 foo.go /\n", context: copied, want: []string{`600 33:7 /foo.go foo`}},
		"chown group alone":   {text: "FROM base\nCOPY --chown=:staff foo.go /\n", context: copied, want: []string{`600 0:50 /foo.go foo`}},
		"chown variable":      {text: "FROM base\nARG g\nENV o=web\nCOPY --chown=${o}:${g} foo.go /\n", context: copied, args: map[string]string{"g": "staff"}, want: []string{`600 33:50 /foo.go foo`}},
		"chown unknown":       {text: "FROM base\nCOPY --chown=nobodyhere foo.go /\n", context: copied, want: []string{`600 0:0 /foo.go foo`}},
		"chown of the target": {text: "FROM base\nCOPY --from=tree --chown=other file /\n", want: []string{`644 0:0 /file f`}},
		"chown a new dir":     {text: "FROM base\nCOPY --chown=web sub /x/y\n", context: copied, want: []string{`755 33:34 /x/`, `755 33:34 /x/y/`, `755 33:34 /x/y/dir1/`, `755 33:34 /x/y/dir1/dir2/`, `644 33:34 /x/y/dir1/dir2/foo deep`}},
		"chown, no accounts":  {text: "FROM scratch\nCOPY --chown=web foo.go /\n", context: copied, fails: "no account"},
		"chmod":               {text: "FROM base\nCOPY --chmod=0644 run /a\nCOPY --chmod=777 sub /b\nCOPY --chmod=0 run /c\nCOPY --chmod=4711 run /d\n", context: copied, want: []string{`644 0:0 /a run`, `777 0:0 /b/`, `777 0:0 /b/dir1/`, `777 0:0 /b/dir1/dir2/`, `777 0:0 /b/dir1/dir2/foo deep`, `0 0:0 /c run`, `4711 0:0 /d run`}},
		"chmod letters":       {text: "FROM base\nCOPY --chmod=u=rwX,go=rX foo.go /a\nCOPY --chmod=u=rwX,go=rX sub /b\nCOPY --chmod=g+w run /c\n", context: copied, want: []string{`644 0:0 /a foo`, `755 0:0 /b/`, `755 0:0 /b/dir1/`, `755 0:0 /b/dir1/dir2/`, `644 0:0 /b/dir1/dir2/foo deep`, `775 0:0 /c run`}},
		"chmod variable":      {text: "FROM base\nARG mode=640\nCOPY --chmod=${mode} run /a\n", context: copied, want: []string{`640 0:0 /a run`}},
		"chmod wrong":         {text: "FROM base\nCOPY --chmod=64a run /a\n", context: copied, fails: "invalid chmod parameter: '64a'"},
		"chmod too large":     {text: "FROM base\nCOPY --chmod=10000 run /a\n", context: copied, fails: "invalid chmod parameter: '10000'"},
		"link":                {text: "FROM base\nWORKDIR /w\nCOPY --link foo.go .\nCOPY --link sub /x\n", context: copied, want: []string{`755 0:0 /w/`, `600 0:0 /w/foo.go foo`, `755 0:0 /x/`, `755 0:0 /x/dir1/`, `755 0:0 /x/dir1/dir2/`, `644 0:0 /x/dir1/dir2/foo deep`}},
		"existing, from": {text: "FROM existing\nCOPY --from=tree /file .\nCOPY --from=tree /dir /dir\nCOPY --from=tree /dir/. /old\n", want: []string{
			`755 0:0 /dir/`, `755 101:201 /dir/sub/`, `640 102:202 /dir/sub/nested n`, `755 101:201 /old/sub/`, `640 102:202 /old/sub/nested n`, `755 0:0 /w/`, `644 100:200 /w/file f`,
		}},
		"existing, chown": {text: "FROM existing\nCOPY --from=tree --chown=300:400 /dir/. /old\n", want: []string{`755 300:400 /old/sub/`, `640 300:400 /old/sub/nested n`}},
		"modes of dirs":   {text: "FROM base\nCOPY --from=tree /sticky /x\nCOPY --from=tree /setgid /y\n", want: []string{`755 0:0 /x/`, `2755 0:0 /y`}},
		"unknown flag":    {text: "FROM base\nCOPY --nothing=1 run /a\n", context: copied, fails: "unknown flag: --nothing"},
		"checksum":        {text: "FROM base\nCOPY --checksum=sha256:00 run /a\n", context: copied, fails: "unknown flag: --checksum"},
		"url":             {text: "FROM base\nCOPY https://example.com/x /a\n", fails: "source can't be a URL for COPY"},
		"git":             {text: "FROM base\nCOPY git@github.com:a/b.git /a\n", fails: "source can't be a git ref for COPY"},
	})
}

func TestConformParents(t *testing.T) {
	context := map[string]string{"foo1/foo2/bar": "1", "foo1/foo2/baz": "2", "foo1/ 700": "", "x/y/z/q": "3"}
	conform(t, map[string]conformance{
		"file":            {text: "FROM scratch\nCOPY --parents foo1/foo2/bar /\n", context: context, want: []string{`700 0:0 /foo1/`, `755 0:0 /foo1/foo2/`, `644 0:0 /foo1/foo2/bar 1`}},
		"wildcard":        {text: "FROM scratch\nWORKDIR /t\nCOPY --parents foo1/foo2/ba* .\n", context: context, want: []string{`755 0:0 /t/`, `700 0:0 /t/foo1/`, `755 0:0 /t/foo1/foo2/`, `644 0:0 /t/foo1/foo2/bar 1`, `644 0:0 /t/foo1/foo2/baz 2`}},
		"pivot":           {text: "FROM scratch\nCOPY --parents foo1/./foo2/bar /o/\n", context: context, want: []string{`755 0:0 /o/`, `755 0:0 /o/foo2/`, `644 0:0 /o/foo2/bar 1`}},
		"two stars":       {text: "FROM scratch\nCOPY --parents **/q /o/\n", context: context, want: []string{`755 0:0 /o/`, `755 0:0 /o/x/`, `755 0:0 /o/x/y/`, `755 0:0 /o/x/y/z/`, `644 0:0 /o/x/y/z/q 3`}},
		"stage, pivot":    {text: "FROM scratch\nCOPY --from=tree --parents /a/b/./c/d /out/\n", want: []string{`755 0:0 /out/`, `755 0:0 /out/c/`, `755 0:0 /out/c/d/`, `755 0:0 /out/c/d/e/`, `644 0:0 /out/c/d/e/bay 2`, `644 0:0 /out/c/d/foo 1`}},
		"stage, dot":      {text: "FROM scratch\nCOPY --from=tree --parents ./a/b/c/d/e/. /out/\n", want: []string{`755 0:0 /out/`, `755 0:0 /out/a/`, `755 0:0 /out/a/b/`, `755 0:0 /out/a/b/c/`, `755 0:0 /out/a/b/c/d/`, `755 0:0 /out/a/b/c/d/e/`, `644 0:0 /out/a/b/c/d/e/bay 2`}},
		"stage, two":      {text: "FROM scratch\nCOPY --from=tree --parents /a/./b/./c/d/foo /out/\n", want: []string{`755 0:0 /out/`, `755 0:0 /out/b/`, `755 0:0 /out/b/c/`, `755 0:0 /out/b/c/d/`, `644 0:0 /out/b/c/d/foo 1`}},
		"stage, wildcard": {text: "FROM scratch\nCOPY --from=tree --parents /a/./*/c /out/\n", want: []string{`755 0:0 /out/`, `755 0:0 /out/b/`, `755 0:0 /out/b/c/`, `755 0:0 /out/b/c/d/`, `755 0:0 /out/b/c/d/e/`, `644 0:0 /out/b/c/d/e/bay 2`, `644 0:0 /out/b/c/d/foo 1`, `755 0:0 /out/b2/`, `755 0:0 /out/b2/c/`, `755 0:0 /out/b2/c/d/`, `755 0:0 /out/b2/c/d/e/`, `644 0:0 /out/b2/c/d/e/bar 3`}},
		"stage, both":     {text: "FROM scratch\nCOPY --from=tree --parents /a/b*/./c/**/e /out/\n", want: []string{`755 0:0 /out/`, `755 0:0 /out/c/`, `755 0:0 /out/c/d/`, `755 0:0 /out/c/d/e/`, `644 0:0 /out/c/d/e/bar 3`, `644 0:0 /out/c/d/e/bay 2`}},
		"stage, inputs":   {text: "FROM scratch\nCOPY --from=tree --parents /a/b/c*/./d/**/baz /a/b*/./c/**/bar /out/\n", want: []string{`755 0:0 /out/`, `755 0:0 /out/c/`, `755 0:0 /out/c/d/`, `755 0:0 /out/c/d/e/`, `644 0:0 /out/c/d/e/bar 3`, `755 0:0 /out/d/`, `755 0:0 /out/d/e/`, `644 0:0 /out/d/e/baz 4`, `755 0:0 /out/d/e2/`, `644 0:0 /out/d/e2/baz 5`}},
		"missing":         {text: "FROM scratch\nCOPY --parents foo1/nothing /\n", context: context, fails: "nothing"},
		"missing, pivot":  {text: "FROM scratch\nCOPY --parents foo1/./nothing /\n", context: context, fails: "foo1"},
		"missing, stage":  {text: "FROM scratch\nCOPY --from=tree --parents /a/nothing /out/\n", fails: "nothing"},
		"none, wildcard":  {text: "FROM base\nCOPY --from=tree --parents /a/b/./c9* /out/\n", want: []string{`755 0:0 /out/`}},
		"dangling":        {text: "FROM base\nCOPY --parents l /d/\n", context: map[string]string{"l": "-> nothing"}, want: []string{`755 0:0 /d/`, `/d/l -> nothing`}},
		"absolute":        {text: "FROM base\nCOPY --parents l /d/\n", context: map[string]string{"l": "-> /etc/nothing"}, want: []string{`755 0:0 /d/`, `/d/l -> /etc/nothing`}},
		"dangling, pivot": {text: "FROM base\nCOPY --parents s/./l /d/\n", context: map[string]string{"s/l": "-> nothing"}, want: []string{`755 0:0 /d/`, `/d/l -> nothing`}},
		"dangling, stage": {text: "FROM base AS a\nCOPY . /s/\nFROM base\nCOPY --from=a --parents /s/l /d/\n", context: map[string]string{"l": "-> nothing"}, want: []string{`755 0:0 /d/`, `755 0:0 /d/s/`, `/d/s/l -> nothing`}},
		"through a link":  {text: "FROM base\nCOPY --parents l/f /d/\n", context: map[string]string{"d/f": "x", "l": "-> d"}, fails: "/l/f is not there"},
		"link, pivot":     {text: "FROM base\nCOPY --parents l/./f /d/\n", context: map[string]string{"d/f": "x", "l": "-> d"}, want: []string{`755 0:0 /d/`, `644 0:0 /d/f x`}},
		"excluded":        {text: "FROM base\nCOPY --parents --exclude=f f /d/\n", context: map[string]string{"f": "x"}, fails: "/f is not there"},
		"excluded above":  {text: "FROM base\nCOPY --parents --exclude=s s/f /d/\n", context: map[string]string{"s/f": "x"}, fails: "/s/f is not there"},
		"excluded but":    {text: "FROM base\nCOPY --parents --exclude=s --exclude=!s/f s /d/\n", context: map[string]string{"s/f": "x"}, want: []string{`755 0:0 /d/`, `755 0:0 /d/s/`, `644 0:0 /d/s/f x`}},
		"dangling, alone": {text: "FROM base\nCOPY l /d/\n", context: map[string]string{"l": "-> nothing"}, fails: "not"},
	})
}

func TestConformExclude(t *testing.T) {
	context := map[string]string{
		"dir1/101.png": "2", "dir1/102.txt": "3", "dir2/201.pdf": "6", "dir2/202.png": "7", "dir4/401.txt": "11", "dir4/402.txt": "-> 401.txt", "dir3/301.mp3": "9", "dir3/302.mpeg": "10",
	}
	conform(t, map[string]conformance{
		"patterns": {text: "FROM scratch\nCOPY --exclude=*/*.png --exclude=*/*.mp* . /1\n", context: context, want: []string{
			`755 0:0 /1/`, `755 0:0 /1/dir1/`, `644 0:0 /1/dir1/102.txt 3`, `755 0:0 /1/dir2/`, `644 0:0 /1/dir2/201.pdf 6`, `755 0:0 /1/dir3/`, `755 0:0 /1/dir4/`, `644 0:0 /1/dir4/401.txt 11`, `/1/dir4/402.txt -> 401.txt`,
		}},
		"add":      {text: "FROM scratch\nADD --exclude=*.mp3 dir3/ /3/\n", context: context, want: []string{`755 0:0 /3/`, `644 0:0 /3/302.mpeg 10`}},
		"wildcard": {text: "FROM scratch\nCOPY --exclude=*.png --exclude=*.mp3 --exclude=*.txt dir* /4/\n", context: context, want: []string{`755 0:0 /4/`, `644 0:0 /4/201.pdf 6`, `644 0:0 /4/302.mpeg 10`}},
		"all":      {text: "FROM scratch\nCOPY --exclude=* . /6\n", context: context, want: []string{`755 0:0 /6/`}},
		"stage":    {text: "FROM scratch\nCOPY --from=tree --exclude=**/e --exclude=b2 /a /7\n", want: []string{`755 0:0 /7/`, `755 0:0 /7/b/`, `755 0:0 /7/b/c/`, `755 0:0 /7/b/c/d/`, `644 0:0 /7/b/c/d/foo 1`, `755 0:0 /7/b/c2/`, `755 0:0 /7/b/c2/d/`, `755 0:0 /7/b/c2/d/e2/`, `644 0:0 /7/b/c2/d/e2/baz 5`}},
		"parents":  {text: "FROM scratch\nCOPY --parents --exclude=**/*.png dir1 dir2 /8/\n", context: context, want: []string{`755 0:0 /8/`, `755 0:0 /8/dir1/`, `644 0:0 /8/dir1/102.txt 3`, `755 0:0 /8/dir2/`, `644 0:0 /8/dir2/201.pdf 6`}},
	})
}

func TestConformIgnore(t *testing.T) {
	context := map[string]string{"foo": "1", "bar": "2", "baz": "3", "bay": "4", "dir/a.md": "5", "dir/README.md": "6", "dir/deep/b.tmp": "7", "Dockerfile": "d", ".dockerignore": "i"}
	conform(t, map[string]conformance{
		"names":     {text: "FROM scratch\nCOPY . /\n", context: context, ignore: "# comment\nba*\nDockerfile\n!bay\n.dockerignore\ndir\n", want: []string{`644 0:0 /bay 4`, `644 0:0 /foo 1`}},
		"negation":  {text: "FROM scratch\nCOPY . /\n", context: context, ignore: "*\n!dir/README.md\n", want: []string{`755 0:0 /dir/`, `644 0:0 /dir/README.md 6`}},
		"order":     {text: "FROM scratch\nCOPY dir /d\n", context: context, ignore: "dir/*.md\n!dir/README*.md\ndir/README.md\ndir/deep", want: []string{`755 0:0 /d/`}},
		"two stars": {text: "FROM scratch\nCOPY dir /d\n", context: context, ignore: "**/*.tmp\n", want: []string{`755 0:0 /d/`, `644 0:0 /d/README.md 6`, `644 0:0 /d/a.md 5`, `755 0:0 /d/deep/`}},
		"slash":     {text: "FROM scratch\nCOPY dir foo /d/\n", context: context, ignore: "/foo*\n/dir/deep/\n  dir/a.md  \n", want: []string{`755 0:0 /d/`, `644 0:0 /d/README.md 6`}, fails: "foo"},
		"all of it": {text: "FROM base\nCOPY foo /\n", context: context, ignore: "foo", fails: "foo"},
		"invalid":   {text: "FROM scratch\nCOPY . .\n", context: context, ignore: "!\n", fails: ".dockerignore"},
	})
}
