package step

import "testing"

// says returns a Dockerfile that shows the value of one variable.
func says(text string) string { return "FROM base\n" + text + "\nLABEL says=\"$x\"\n" }

func label(v string) string { return `{"Labels":{"of":"base","says":"` + v + `"}}` }

// TestConformExpansion checks the forms of variable expansion in the Dockerfile reference:
// "Environment replacement".
func TestConformExpansion(t *testing.T) {
	cases := map[string]conformance{}
	for form, want := range map[string]string{
		`${v}`: "a/b.c.d/b", `$v`: "a/b.c.d/b", `${v}s`: "a/b.c.d/bs", `\$v`: "$v", `\${v}`: "${v}", `${no}`: "",
		`${no:-else}`: "else", `${no-else}`: "else", `${e:-else}`: "else", `${e-else}`: "", `${v:-else}`: "a/b.c.d/b", `${no:-${v}}`: "a/b.c.d/b",
		`${v:+yes}`: "yes", `${v+yes}`: "yes", `${e:+yes}`: "", `${e+yes}`: "yes", `${no:+yes}`: "", `${no+yes}`: "",
		`${v:?must}`: "a/b.c.d/b", `${v#a/}`: "b.c.d/b", `${v#*/}`: "b.c.d/b", `${v##*/}`: "b", `${v%/*}`: "a/b.c.d", `${v%%/*}`: "a", `${v%.?*}`: "a/b.c",
		`${v%%.*}`: "a/b", `${v/b/X}`: "a/X.c.d/b", `${v//b/X}`: "a/X.c.d/X", `${v//./-}`: "a/b-c-d/b", `${v/\//-}`: "a-b.c.d/b", `${v#nothing}`: "a/b.c.d/b",
		`pre${v##*/}post`: "prebpost", `${v?must}`: "a/b.c.d/b",
	} {
		cases[form] = conformance{text: says("ENV v=a/b.c.d/b e=\nENV x=" + form), config: label(want)}
	}
	cases["half"] = conformance{text: says("ENV v=b\nENV x=${v//b}"), fails: "missing"}
	cases["must"] = conformance{text: says("ENV x=\"${no:?is needed}\""), fails: "is needed"}
	cases["must, empty"] = conformance{text: says("ENV e=\nENV x=\"${e:?is needed}\""), fails: "is needed"}
	cases["unknown form"] = conformance{text: says("ENV x=${no@Q}"), fails: "unsupported modifier"}
	cases["open"] = conformance{text: says("ENV x=${no"), fails: "failed to process"}
	cases["one line is one moment"] = conformance{text: says("ENV abc=hello\nENV abc=bye def=$abc\nENV ghi=$abc\nENV x=$abc-$def-$ghi"), config: label("bye-hello-bye")}
	cases["single quotes"] = conformance{text: says(`ENV v=1 x='$v'`), config: label("$v")}
	cases["double quotes"] = conformance{text: "FROM base\nENV v=1\nENV x=\"a $v\"\nLABEL says=$x\n", config: label("a 1")}
	cases["spaces"] = conformance{text: says(`ENV x=a\ b`), config: label("a b")}
	cases["old form"] = conformance{text: says("ENV x a   b"), config: label("a   b")}
	cases["escape"] = conformance{text: "# escape=`\nFROM base\nENV v=1\nENV x=C:\\dir`\n`$v\nLABEL says=\"$x\"\n", config: label(`C:\\dir$v`)}
	cases["continued"] = conformance{text: says("ENV x=a\\\n# between\n\\\nb"), config: label("ab")}
	cases["of the base"] = conformance{text: says("ENV x=$FROM_BASE"), config: label("yes")}
	conform(t, cases)
}

// TestConformArgs checks where an argument is defined, and its value there.
func TestConformArgs(t *testing.T) {
	v := func(k, v string) map[string]string { return map[string]string{k: v} }
	conform(t, map[string]conformance{
		"not given":             {text: says("ARG x"), config: label("")},
		"default":               {text: says("ARG x=d"), config: label("d")},
		"given":                 {text: says("ARG x=d"), args: v("x", "g"), config: label("g")},
		"given, empty":          {text: says("ARG x=d"), args: v("x", ""), config: label("")},
		"not asked for":         {text: says(""), args: v("x", "g"), config: label("")},
		"before FROM alone":     {text: "ARG x=before\n" + says(""), config: label("")},
		"before FROM, again":    {text: "ARG x=before\n" + says("ARG x"), config: label("before")},
		"before FROM, other":    {text: "ARG x=before\n" + says("ARG x=inner"), config: label("inner")},
		"before FROM, given":    {text: "ARG x=before\n" + says("ARG x=inner"), args: v("x", "g"), config: label("g")},
		"in FROM":               {text: "ARG img=ba tail\nFROM ${img}se\n"},
		"FROM of args":          {text: "ARG a1=\"se\"\nARG a2=\"$a1-foo\"\nFROM ba$a1\nARG a2\nARG a3=\"bar-$a2\"\nLABEL says=$a3\n", config: label("bar-se-foo")},
		"several":               {text: "ARG a1=\"foo bar\" a2=se\nARG a3=\"$a2-foo\"\nFROM ba$a2\nARG a3 a4=\"123 456\" a1\nLABEL says=\"$a1:$a3:$a4\"\n", config: label("foo bar:se-foo:123 456")},
		"FROM default":          {text: "ARG none\nFROM ${none:-base}\n"},
		"FROM of nothing":       {text: "FROM ${none}\n", fails: "base name (${none}) should not be blank"},
		"wanted before FROM":    {text: "ARG FOO=${FOO:?\"custom error\"}\nFROM base\n", fails: "custom error"},
		"wanted, given":         {text: "ARG FOO=${FOO:?\"custom error\"}\nFROM base\n", args: v("FOO", "bar")},
		"wanted inside":         {text: "FROM base\nARG FOO\nARG BAR=${FOO:?\"foo missing\"}\n", fails: "foo missing"},
		"wanted inside, given":  {text: "FROM base\nARG FOO\nARG BAR=${FOO:?\"foo missing\"}\n", args: v("BAR", "1")},
		"ENV is stronger":       {text: says("ARG x=arg\nENV x=env"), args: v("x", "g"), config: label("env")},
		"ENV before":            {text: says("ENV x=env\nARG x=arg"), args: v("x", "g"), config: label("g")},
		"ENV of ARG":            {text: says("ARG a=d\nENV x=${a:-v1}"), args: v("a", "g"), config: label("g")},
		"use before it is told": {text: "FROM base\nUSER ${user:-some_user}\nARG user\n", args: v("user", "what"), config: `{"User":"some_user"}`},
		"ends with the stage":   {text: "FROM base AS a\nARG x=1\n" + says(""), config: label("")},
		"inherited by stages":   {text: "FROM base AS a\nARG x=1\nFROM a\nLABEL says=$x\n", config: label("1")},
		"in the image":          {text: "FROM base\nARG x=1\n", config: `{"Env":["PATH=/bin","FROM_BASE=yes"]}`},
		"predefined":            {text: "FROM base\nRUN a\n", args: v("HTTP_PROXY", "p"), runs: []string{"/: /bin/sh|-c|a"}},
		"platform":              {text: "FROM --platform=$BUILDPLATFORM base\nARG TARGETPLATFORM TARGETOS TARGETARCH TARGETVARIANT BUILDPLATFORM BUILDARCH TARGETSTAGE\nLABEL says=\"$TARGETPLATFORM $TARGETOS $TARGETARCH $TARGETVARIANT $BUILDPLATFORM $BUILDARCH $TARGETSTAGE\"\n", config: label("linux/%ARCH% linux %ARCH%  linux/%ARCH% %ARCH% default")},
		"platform, not told":    {text: "FROM base\nLABEL says=\"$TARGETPLATFORM\"\n", config: label("")},
		"platform, own":         {text: "FROM base\nARG TARGETARCH=mine\nLABEL says=$TARGETARCH\n", config: label("mine")},
		"platform in FROM":      {text: "ARG TARGETARCH\nFROM base-$TARGETARCH AS other\n", fails: "it needs [\"docker.io/library/base-%ARCH%:latest\"]"},
		"stage by arg":          {text: "ARG which=b\nFROM base AS a\nLABEL says=a\nFROM base AS b\nLABEL says=b\nFROM $which\n", args: v("which", "a"), config: label("a")},
		"stage's name":          {text: "FROM base AS first\nARG TARGETSTAGE\nLABEL says=$TARGETSTAGE\nFROM base\n", target: "first", config: label("first")},
		"bad name":              {text: "FROM base\nARG =x\n", fails: "ARG"},
	})
}

// TestConformConfig checks the effect of the instructions on the image's configuration.
func TestConformConfig(t *testing.T) {
	conform(t, map[string]conformance{
		"base":                   {text: "FROM base\n", config: `{"Env":["PATH=/bin","FROM_BASE=yes"],"Cmd":["sh"],"Entrypoint":["/init"],"Labels":{"of":"base"},"User":null}`},
		"scratch":                {text: "FROM scratch\nENV a=b\n", config: `{"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin","a=b"]}`},
		"env, again":             {text: "FROM base\nENV a=1 b=2\nENV a=3\n", config: `{"Env":["PATH=/bin","FROM_BASE=yes","a=3","b=2"]}`},
		"env, empty":             {text: "FROM base\nENV a= b=\"\"\n", config: `{"Env":["PATH=/bin","FROM_BASE=yes","a=","b="]}`},
		"env, no value":          {text: "FROM base\nENV a\n", fails: "ENV must have two arguments"},
		"env, path":              {text: "FROM base\nENV PATH=$PATH:/x\n", config: `{"Env":["PATH=/bin:/x","FROM_BASE=yes"]}`},
		"cmd":                    {text: "FROM base\nCMD [\"a\", \"b c\"]\n", config: `{"Cmd":["a","b c"],"Entrypoint":["/init"]}`},
		"cmd, shell":             {text: "FROM base\nCMD a $b\n", config: `{"Cmd":["/bin/sh","-c","a $b"]}`},
		"cmd, last":              {text: "FROM base\nCMD a\nCMD [\"b\"]\n", config: `{"Cmd":["b"]}`},
		"cmd, empty":             {text: "FROM base\nCMD []\n", config: `{"Cmd":null}`},
		"cmd, no JSON":           {text: "FROM base\nCMD ['a']\n", config: `{"Cmd":["/bin/sh","-c","['a']"]}`},
		"entrypoint":             {text: "FROM base\nENTRYPOINT [\"e\"]\n", config: `{"Entrypoint":["e"],"Cmd":null}`},
		"entrypoint, cmd before": {text: "FROM base\nCMD [\"c\"]\nENTRYPOINT [\"e\"]\n", config: `{"Entrypoint":["e"],"Cmd":["c"]}`},
		"entrypoint, empty":      {text: "FROM base\nENTRYPOINT []\n", config: `{"Entrypoint":null,"Cmd":null}`},
		"entrypoint, shell":      {text: "FROM base\nENTRYPOINT exec top -b\n", config: `{"Entrypoint":["/bin/sh","-c","exec top -b"]}`},
		"shell":                  {text: "FROM base\nSHELL [\"/bin/bash\", \"-o\", \"pipefail\", \"-c\"]\nCMD a\nRUN b\n", config: `{"Shell":["/bin/bash","-o","pipefail","-c"],"Cmd":["/bin/bash","-o","pipefail","-c","a"]}`, runs: []string{"/: /bin/bash|-o|pipefail|-c|b"}},
		"shell, no JSON":         {text: "FROM base\nSHELL bash -c\n", fails: "SHELL requires the arguments to be in JSON form"},
		"shell, stage":           {text: "FROM base AS a\nSHELL [\"s\"]\nFROM a\nRUN b\nFROM base\nCOPY --from=1 /etc/group /x\n", runs: []string{"/: s|b"}, want: []string{`644 0:0 /x root:x:0:\nweb:x:34:\nstaff:x:50:\n`}},
		"label":                  {text: "FROM base\nLABEL \"a.b\"=\"c d\" e=f\\ g\nLABEL e='\"h\"' i=\"j\\\nk\"\n", config: `{"Labels":{"of":"base","a.b":"c d","e":"\"h\"","i":"jk"}}`},
		"label, old form":        {text: "FROM base\nLABEL a b c\n", config: `{"Labels":{"of":"base","a":"b c"}}`},
		"expose":                 {text: "FROM base\nENV p=3000 r=4000-4002\nEXPOSE 80 90/udp $p ${r}/tcp\n", config: `{"ExposedPorts":{"80/tcp":{},"90/udp":{},"3000/tcp":{},"4000/tcp":{},"4001/tcp":{},"4002/tcp":{}}}`},
		"expose, wrong":          {text: "FROM base\nEXPOSE 80/what\n", fails: "invalid proto"},
		"volume":                 {text: "FROM base\nENV d=/data\nVOLUME $d /e\nVOLUME [\"/x\",\"/y\"]\n", config: `{"Volumes":{"/data":{},"/e":{},"/x":{},"/y":{}}}`},
		"user":                   {text: "FROM base\nENV u=web\nUSER $u:staff\nRUN a\nUSER 33\n", config: `{"User":"33"}`, runs: []string{"web:staff /: /bin/sh|-c|a u=web"}},
		"workdir":                {text: "FROM base\nENV d=/a\nWORKDIR $d/b\nWORKDIR c\nWORKDIR ../d\nRUN a\n", config: `{"WorkingDir":"/a/b/d"}`, runs: []string{"/a/b/d: /bin/sh|-c|a d=/a"}, want: []string{`755 0:0 /a/`, `755 0:0 /a/b/`, `755 0:0 /a/b/c/`, `755 0:0 /a/b/d/`}},
		"workdir of the base":    {text: "FROM existing\nWORKDIR x\n", config: `{"WorkingDir":"/w/x","User":"web"}`, want: []string{`755 0:0 /w/`, `755 0:0 /w/x/`}},
		"workdir of a user":      {text: "FROM base\nUSER web\nWORKDIR /mine\n", config: `{"WorkingDir":"/mine"}`, want: []string{`755 33:34 /mine/`}},
		"workdir, by a link":     {text: "FROM existing\nWORKDIR /var/run/x\n", config: `{"WorkingDir":"/var/run/x"}`, want: []string{`755 0:0 /run/x/`}},
		"workdir of a slash":     {text: "FROM base\nWORKDIR /a/\n", config: `{"WorkingDir":"/a/"}`, want: []string{`755 0:0 /a/`}},
		"stopsignal":             {text: "FROM base\nENV s=SIGUSR1\nSTOPSIGNAL $s\n", config: `{"StopSignal":"SIGUSR1"}`},
		"stopsignal, wrong":      {text: "FROM base\nSTOPSIGNAL SIGNOTHING\n", fails: "invalid"},
		"healthcheck":            {text: "FROM base\nHEALTHCHECK --interval=5m --timeout=3s --start-period=1s --start-interval=2s --retries=4 CMD curl -f http://localhost/ || exit 1\n", config: `{"Healthcheck":{"Test":["CMD-SHELL","curl -f http://localhost/ || exit 1"],"Interval":300000000000,"Timeout":3000000000,"StartPeriod":1000000000,"StartInterval":2000000000,"Retries":4}}`},
		"healthcheck, exec":      {text: "FROM base\nHEALTHCHECK CMD [\"a\",\"b\"]\n", config: `{"Healthcheck":{"Test":["CMD","a","b"]}}`},
		"healthcheck, none":      {text: "FROM base\nHEALTHCHECK NONE\n", config: `{"Healthcheck":{"Test":["NONE"]}}`},
		"healthcheck, short":     {text: "FROM base\nHEALTHCHECK --interval=1us CMD a\n", fails: "cannot be less than 1ms"},
		"onbuild":                {text: "FROM base\nONBUILD RUN a\nONBUILD COPY . /x\n", config: `{"OnBuild":["RUN a","COPY . /x"]}`},
		"onbuild onbuild":        {text: "FROM base\nONBUILD ONBUILD RUN a\n", fails: "Chaining ONBUILD"},
		"onbuild from":           {text: "FROM base\nONBUILD FROM x\n", fails: "FROM isn't allowed as an ONBUILD trigger"},
		"triggers":               {text: "FROM triggers\nRUN own\n", context: map[string]string{"a": "1"}, config: `{"OnBuild":null,"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin","T=1"]}`, runs: []string{"/: /bin/sh|-c|on build", "/: /bin/sh|-c|own T=1"}, want: []string{`644 0:0 /from-trigger 1`}},
		"triggers, once":         {text: "FROM triggers AS a\nFROM a\n", context: map[string]string{"a": "1"}, config: `{"OnBuild":null}`, runs: []string{"/: /bin/sh|-c|on build"}, want: []string{`644 0:0 /from-trigger 1`}},
		"triggers, other image":  {text: "FROM stages\n", want: []string{`644 100:200 /from-stage f`}},
		"onbuild of a stage":     {text: "FROM base AS a\nONBUILD RUN b\nFROM a\n", config: `{"OnBuild":null}`, runs: []string{"/: /bin/sh|-c|b"}},
		"maintainer":             {text: "FROM base\nMAINTAINER me\n"},
		"checks are errors":      {text: "# check=error=true\nFROM base AS Big\nCMD a\n", fails: "lint violation found"},
		"unknown instruction":    {text: "FROM base\nRUM a\n", fails: "unknown instruction: RUM (did you mean RUN?)"},
		"no FROM":                {text: "RUN a\n", fails: "no build stage in current context"},
		"only ARG":               {text: "ARG a\n", fails: "no stages to build"},
		"lower case":             {text: "from base as A\nenv a=b\nFROM a\nrun c\n", runs: []string{"/: /bin/sh|-c|c a=b"}},
	})
}

func TestConformStages(t *testing.T) {
	conform(t, map[string]conformance{
		"not needed":        {text: "FROM nowhere AS unused\nRUN fails\nFROM base\nRUN a\n", runs: []string{"/: /bin/sh|-c|a"}},
		"by index":          {text: "FROM tree\nFROM base\nCOPY --from=0 /file /f\n", want: []string{`644 100:200 /f f`}},
		"by name":           {text: "FROM tree AS one\nFROM base\nCOPY --from=ONE /file /f\n", want: []string{`644 100:200 /f f`}},
		"by image":          {text: "FROM base\nCOPY --from=tree /file /f\n", want: []string{`644 100:200 /f f`}},
		"by image's name":   {text: "FROM base AS tree\nFROM scratch\nCOPY --from=tree /etc/group /g\n", want: []string{`644 0:0 /g root:x:0:\nweb:x:34:\nstaff:x:50:\n`}},
		"by arg":            {text: "ARG s=tree\nFROM $s AS one\nFROM base\nARG from=one\nCOPY --from=$from /file /f\n", fails: "variable expansion is not supported"},
		"later":             {text: "FROM base AS a\nCOPY --from=later /file /f\nFROM tree AS later\nFROM a\n", fails: "it needs"},
		"itself":            {text: "FROM base AS a\nCOPY --from=a /file /f\n", fails: "circular dependency"},
		"index too large":   {text: "FROM base\nCOPY --from=7 /file /f\n", fails: "invalid stage index 7"},
		"target":            {text: "FROM base AS a\nRUN a\nFROM a AS b\nRUN b\nFROM b\nRUN c\n", target: "b", runs: []string{"/: /bin/sh|-c|a", "/: /bin/sh|-c|b"}},
		"target by index":   {text: "FROM base AS a\nRUN a\nFROM a\nRUN b\n", target: "0", fails: "target stage \"0\" could not be found"},
		"target missing":    {text: "FROM base AS build\n", target: "bild", fails: "target stage \"bild\" could not be found (did you mean build?)"},
		"same name":         {text: "FROM base AS a\nRUN one\nFROM base AS a\nRUN two\nFROM a\n", runs: []string{"/: /bin/sh|-c|two"}},
		"bad name":          {text: "FROM base AS 1a\n", fails: "invalid name for build stage"},
		"three words":       {text: "FROM base a b\n", fails: "FROM requires either one or three arguments"},
		"missing in stage":  {text: "FROM base\nCOPY --from=tree /nothing /x\n", fails: "nothing"},
		"everything":        {text: "FROM tree AS s\nFROM scratch\nCOPY --from=s /dir /\n", want: []string{`755 101:201 /sub/`, `640 102:202 /sub/nested n`}},
		"stage on stage":    {text: "FROM base AS a\nWORKDIR /w\nCOPY --from=tree /file .\nFROM a\nCOPY --from=a /w/file g\n", want: []string{`755 0:0 /w/`, `644 100:200 /w/file f`, `644 100:200 /w/g f`}},
		"other platform":    {text: "FROM --platform=linux/riscv64 base\nRUN a\n", fails: "linux/riscv64"},
		"nothing but FROM":  {text: "FROM scratch\n"},
		"owners of a stage": {text: "FROM base AS a\nCOPY --chown=web:staff x /x\nFROM scratch\nCOPY --from=a /x /y\n", context: map[string]string{"x": "1"}, want: []string{`644 33:50 /y 1`}},
	})
}

func TestConformHeredocs(t *testing.T) {
	conform(t, map[string]conformance{
		"copy":            {text: "FROM base\nCOPY <<EOF /d/x\nline $FROM_BASE \\$a\nEOF\n", want: []string{`755 0:0 /d/`, `644 0:0 /d/x line yes $a\n`}},
		"quoted":          {text: "FROM base\nCOPY <<\"EOF\" /x\nline $FROM_BASE \\$a\nEOF\n", want: []string{`644 0:0 /x line $FROM_BASE \\$a\n`}},
		"tabs":            {text: "FROM base\nCOPY <<-EOF /x\n\tone\n\t\ttwo\n  three\n\tEOF\n", want: []string{`644 0:0 /x one\ntwo\n  three\n`}},
		"several":         {text: "FROM base\nCOPY <<one <<two /d/\n1\none\n2\ntwo\n", want: []string{`755 0:0 /d/`, `644 0:0 /d/one 1\n`, `644 0:0 /d/two 2\n`}},
		"beside files":    {text: "FROM base\nCOPY f <<two /d/\n2\ntwo\n", context: map[string]string{"f": "1"}, want: []string{`755 0:0 /d/`, `644 0:0 /d/f 1`, `644 0:0 /d/two 2\n`}},
		"flags":           {text: "FROM base\nCOPY --chown=web --chmod=750 <<EOF /x\n1\nEOF\n", want: []string{`750 33:34 /x 1\n`}},
		"empty":           {text: "FROM base\nCOPY <<EOF /x\nEOF\n", want: []string{`644 0:0 /x`}},
		"to a dir":        {text: "FROM base\nCOPY <<name.txt /etc\n1\nname.txt\n", want: []string{`644 0:0 /etc/name.txt 1\n`}},
		"add":             {text: "FROM base\nADD <<EOF /x\n1\nEOF\n", want: []string{`644 0:0 /x 1\n`}},
		"run":             {text: "FROM base\nRUN <<EOF\necho a\necho b\nEOF\n", runs: []string{"/: /bin/sh|-c|echo a\necho b\n"}},
		"run, program":    {text: "FROM base\nRUN python <<EOF\nprint(1)\nEOF\n", runs: []string{"/: /bin/sh|-c|python <<EOF\nprint(1)\nEOF"}},
		"run, shebang":    {text: "FROM base\nRUN <<EOF\n#!/bin/sh\necho a\nEOF\n", runs: []string{"/: /bin/sh|-c|/dev/pipes/EOF [bind /dev/pipes/ from / ro]"}},
		"run, several":    {text: "FROM base\nRUN cat <<a <<b\n1\na\n2\nb\n", runs: []string{"/: /bin/sh|-c|cat <<a <<b\n1\na\n2\nb"}},
		"run, no heredoc": {text: "FROM base\nRUN echo $((1<<2))\n", runs: []string{"/: /bin/sh|-c|echo $((1<<2))"}},
		"not ended":       {text: "FROM base\nCOPY <<EOF /x\n1\n", fails: "unterminated heredoc"},
		"onbuild":         {text: "FROM base AS a\nONBUILD COPY <<EOF /x\n1\nEOF\nFROM a\n", want: []string{`644 0:0 /x 1\n`}},
	})
}

func TestConformRun(t *testing.T) {
	sh := "/: /bin/sh|-c|"
	conform(t, map[string]conformance{
		"exec":             {text: "FROM base\nRUN [\"a\", \"b $c\"]\n", runs: []string{"/: a|b $c"}},
		"args":             {text: "FROM base\nARG x=1\nENV y=2\nRUN a\nARG z=3\nRUN b\n", runs: []string{sh + "a x=1 y=2", sh + "b x=1 y=2 z=3"}},
		"lines":            {text: "FROM base\nRUN a && \\\n  # comment\n  b\n", runs: []string{sh + "a &&   b"}},
		"cache":            {text: "FROM base\nRUN --mount=type=cache,target=/c a\n", runs: []string{sh + "a [cache /c /c shared]"}},
		"cache, id":        {text: "FROM base\nARG n=x\nRUN --mount=type=cache,id=$n,target=/c,sharing=locked a\n", runs: []string{sh + "a n=x [cache /c x locked]"}},
		"cache, owner":     {text: "FROM base\nRUN --mount=type=cache,target=/c,uid=1,gid=2,mode=0700,sharing=private a\n", runs: []string{sh + "a [cache /c from /cache /c private]"}},
		"cache, from":      {text: "FROM base\nRUN --mount=type=cache,target=/c,from=tree,source=dir a\n", runs: []string{sh + "a [cache /c from /dir /c shared]"}},
		"cache, relative":  {text: "FROM base\nWORKDIR /w\nRUN --mount=type=cache,target=c a\n", want: []string{`755 0:0 /w/`}, runs: []string{"/w: /bin/sh|-c|a [cache /w/c c shared]"}},
		"cache, read only": {text: "FROM base\nRUN --mount=type=cache,target=/c,ro a\n", runs: []string{sh + "a [cache /c ro /c shared]"}},
		"bind":             {text: "FROM base\nRUN --mount=target=/c a\nRUN --mount=type=bind,target=/c,rw b\n", runs: []string{sh + "a [bind /c ro]", sh + "b [bind /c]"}},
		"bind, source":     {text: "FROM base\nRUN --mount=source=x/y,target=/c --mount=from=tree,source=/dir,target=/d a\n", context: map[string]string{"x/y": "1"}, runs: []string{sh + "a [bind /c from /x/y ro] [bind /d from /dir ro]"}},
		"bind, arg":        {text: "FROM base\nARG t=/c\nRUN --mount=type=bind,target=$t a\n", runs: []string{sh + "a t=/c [bind /c ro]"}},
		"bind, from arg":   {text: "ARG i=tree\nFROM base\nARG i\nRUN --mount=from=$i,target=/c a\n", fails: "'from' doesn't support variable expansion"},
		"tmpfs":            {text: "FROM base\nRUN --mount=type=tmpfs,target=/t,size=10m a\n", runs: []string{sh + "a [tmpfs /t 10485760]"}},
		"secret":           {text: "FROM base\nRUN --mount=type=secret,id=a --mount=type=secret,id=b,target=/b,required,uid=1,gid=2,mode=0440 --mount=type=secret,id=c,env=C a\n", runs: []string{sh + "a C=<c> [secret /run/secrets/a a 0:0 400 true] [secret /b b 1:2 440 false]"}},
		"secret, no id":    {text: "FROM base\nRUN --mount=type=secret,target=/x/y a\n", runs: []string{sh + "a [secret /x/y y 0:0 400 true]"}},
		"no target":        {text: "FROM base\nRUN --mount=type=cache a\n", fails: "invalid mount target"},
		"unknown type":     {text: "FROM base\nRUN --mount=type=what,target=/c a\n", fails: "unsupported mount type"},
		"unknown key":      {text: "FROM base\nRUN --mount=type=cache,what=1,target=/c a\n", fails: "unexpected key 'what'"},
		"root":             {text: "FROM base\nRUN --mount=target=/ a\n", fails: "invalid mount target"},
		"network":          {text: "FROM base\nRUN --network=what a\n", fails: "invalid network mode"},
		"device":           {text: "FROM base\nRUN --device=vendor/x a\n", fails: "device feature is only supported"},
	})
}
