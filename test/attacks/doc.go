// Package attacks performs attacks on real sandboxes and checks from the host the changes that they
// made: files, processes, sockets, namespaces. It never asks a sandbox whether it is contained. If root
// runs the tests, everything happens twice, as root and as an ordinary user.
//
// The cases have the ids of the project's attack list: A for outgoing traffic, B for reading requests, C
// for credentials, D for files, E for git and F for the host's control surface. Cases A are tried on a
// stage: a separate host to which every address leads and on which the test sees every packet
// (test/stage). Tests with hand-made packets, or with a hostile server, are in internal/gateway (G);
// tests of the decisions are in internal/policy (P), and of git on the host in internal/clone (C):
//
//	A1   data in names: TestA1NamesStayInside, TestA1TalkInNamesIsRationed;
//	     G TestA1A2DeniedNameStaysInside, TestA1DataInNamesIsRationed, TestA1DataInDisguise,
//	     TestA1ManyNames; P TestAttackA1DataInNames
//	A2   a name resolved before it is judged: TestA2NobodyAsksForADeniedName; G, P as A1
//	A3   echoes: TestA3ICMPStaysInside; G netstack TestA3EchoRefused, TestA3Disguise
//	A4   a start without the policy: TestA4EveryWayToRun; archtest TestSingles
//	A5   empty lists: TestA5NothingIsNotEverything, TestA21ProjectNarrowsOnly;
//	     P TestAttackA5EmptyLists; cli TestAttackA5EmptyFlags
//	A6   rules dropped for others: TestA6ContradictionsAreErrors; P TestAttackA6Contradictions;
//	     cli TestAttackA6ConflictingFlags
//	A7   IPv6, and IPv4 in it: TestA7BothFamilies, and all other A; P TestAttackA7Families
//	A8   root inside: TestA8RootCannotRemoveTheNetwork, TestA8ToolsOfRoot; G TestA8HandMadePackets
//	A9   allowed names that resolve to closed addresses: TestA9NamesThatLeadAstray; G TestA9A15ResolvedAddressIsJudged;
//	     P TestAttackA9Rebinding
//	A10  an address under an allowed name: TestA10LiteralWithAllowedName, TestInspectedRequests; G TestA10OtherName,
//	     TestA10HelloInDisguise, hello TestUnreadable, FuzzRead;
//	     P TestAttackA10LiteralWithAllowedName
//	A11  fronting: G TestA11Fronting, TestA11FrontingOnOneConnection; P TestAttackA11Fronting, with
//	     the linter's word;
//	     call by call: TestInspectedGRPC, G TestGRPCMethodIsRefused
//	A12  patterns: TestA12Names; P TestAttackA12Suffixes
//	A13  plain HTTP: TestA13PlainHTTP; P TestAttackA13PlainHTTP
//	A14  proxy variables: TestA14ProxyVariables
//	A15  metadata: TestA15Metadata; G TestA9A15ResolvedAddressIsJudged; P TestAttackA15Metadata
//	A16  datagrams, and flows that outlast their rule: TestA16UDPIsRefused, TestA16NetworkByRule;
//	     G TestA16B5PolicyChange, TestA16RefusedPacketsAreTold, netstack TestA16DatagramsRefused; P TestAttackA16B5FlowsEndOnReload
//	A17  SSH: of git, repository by repository, and nothing else: TestA17GitOverSSH;
//	     G TestA17GitOverSSH, TestA17NoTunnel, gitssh TestA17NothingElsePasses, TestA17OneCommand,
//	     FuzzParseCommand; no preset allows it, P TestAttackA17NoSSH. A rule for port 22 without
//	     repositories is a tunnel, P TestLintGit
//	A18  allowed hosts that store data for anybody with a key: TestA18UploadsAreBounded; G TestA18BodyLimit,
//	     TestA18UploadBudget, TestA18UploadBudgetOfRequests, TestA18UploadBudgetOverTLS,
//	     TestA18UploadBudgetOfWebSocket, TestA18UploadBudgetOfGRPC, TestA18UploadBudgetOfGit, outflow TestCutAtTheByte,
//	     TestCrash; P TestAttackA18MultiTenant
//	A19  presets: P TestAttackA19PresetsAreNarrow
//	A20  the host and neighbours: TestA20HostAndNeighbours, TestHostLoopbackIsClosed,
//	     TestOneHostPort, TestPublishedPortsInside, TestPublishedOnLoopbackOnly,
//	     TestHostileServer; P TestAttackA20HostAndLAN
//	A21  deny beats allow: TestA21DenyBeatsAllow, TestA21ProjectNarrowsOnly;
//	     P TestAttackA21NarrowAllowWideDeny; cli TestAttackA21NarrowAllowInFlags
//	A22  URLs opened by the host: nothing inside can ask for it, TestA22HostOpensNothing
//
//	B1   smuggling: G TestB1Smuggling, TestB1SmugglingInFrames, inspect FuzzStrict;
//	     P TestAttackB1QueryInjection
//	B2   HTTP/2 in disguise: G TestB2HTTP2InDisguise; P TestAttackB2Upgrade
//	B3   method overrides: G TestB3MethodOverride; P TestAttackB3MethodOverride. Bodies are
//	     not read: GraphQL is a path to which POST is allowed or not
//	B4   WebSocket: G TestB4WebSocket; P TestAttackB4WebSocket; both ways and from outside: TestInspectedRequests
//	B5   connections under old rules: G TestB5PolicyChangeDuringRequest, TestB5KeepAliveEnds,
//	     TestA16B5PolicyChange, TestB5StreamEndsWithItsRule
//	B6   redirects: G TestB6RedirectIsNotFollowed; P TestAttackB6C8OtherHost
//	B7   SQL: not filtered
//	B8   MCP and JSON-RPC: G TestB8CallsAreJudged, TestB8Disguises, TestB8ToolShadowing,
//	     TestB8ExpectIsAnsweredOnce, TestB8RulesChangeMeanwhile, TestB8ManyAtOnce, TestB8SlowBody,
//	     rpc TestReadRefuses, FuzzRead; from inside: TestInspectedRequests
//	B9   the gateway from the host: TestB9NobodyListens
//	B10  endless answers: G TestB10EndlessAnswers, inspect TestB10SlowHead; endless requests:
//	     G TestB10SlowRequest; floods:
//	     TestB10Crowd, TestB10Slow, TestB10Names, TestB10Mock
//	B11  rules by program: none exist
//
//	C1   requests that also carry a credential of the sandbox: G inject TestC1OtherCredentials; C1, C2, C3 and C12 from
//	     inside: TestInspectedRequests
//	C2   echoes: G inject TestC2Echo, TestC2EchoBasic, TestC2EchoQuery, TestC2CompressedEcho,
//	     G TestC2EchoOverGRPC, TestC2WhatServersRemember
//	C3   placeholders in disguise: G inject TestC3PlaceholderElsewhere, TestC3Bodies. Traffic
//	     that is not looked into is not searched
//	C4   placeholders in the clear: G TestC4ClearText, inject TestC4OnlyOnTheBoundRoute
//	C5   tokens answered into the sandbox: G TestC5RenewalInside, TestLoginShared, for logins of the
//	     host; tokens that an agent obtains by a login inside: G TestCapture, TestCaptureIdentity, and
//	     those not kept outside, TestNotCaptured; with real agents test/agents TestLoginInside, TestLoggedOut
//	C6   places where a secret could be read: TestC6SecretStaysOutside, TestSavedImage; with real
//	     agents, memory and checkpoints test/agents
//	C7   other ways to read it: TestC7TokensOfTools
//	C8   settings that send it elsewhere: G inject TestC8BoundToTheConnection; from inside: TestInspectedRequests
//	C9   requests that Bothy makes for the sandbox: the renewal of a login goes only to the endpoint in
//	     its description, follows no redirect, and is not made if a rule denies it: G TestC9RenewalIsJudged
//	C10  forwarded agents: TestC10SSHAgent; G sshagent TestC10NothingElseIsSigned,
//	     TestC10NothingElseIsAsked, TestC10BoundOnce. Each use is logged; the user is asked about none
//	C11  the way to the server: G TestC11UpstreamIsVerified; the key of the authority, in files,
//	     memory and checkpoints, looked for from outside and by root inside: TestC6SecretStaysOutside.
//	     Requests are not signed
//	C12  revoked secrets: G TestC12RevokedSecretEndsRequests, inject TestC12Ended,
//	     sshagent TestC12LeaseEnds
//
//	D1   links that a sandbox makes and through which the host would write or read:
//	     TestCopyOutIntoHostileWorkspace, TestCopyInRace, TestWorkspaceSwappedByLink; in the path
//	     to which the host copies: internal/cli TestOpenPlace
//	D2   a file exchanged between the check and the opening: TestCopyInRace
//	D3   spellings of a path: TestCanaries (read), TestHostileWorkspace, TestOutputIsPlain
//	D4   hard links: TestCopyOut, TestHostileWorkspace
//	D5   raw file protocol: a sandbox has no channel to the gofer but the sentry's. TestCanaries (unreachable)
//	     checks what an attacker who controls the sentry could open
//	D6   disk fill: TestDiskBomb, TestCopyOutSparse; --disk: script disk-quota,
//	     disk-quota-places; holes in applied files: internal/review TestApplyHoles. A live
//	     workspace has no quota
//	D7   mounts of directories that must not be shared: TestWorkspaceRefusals, TestStateDirectoryStaysHidden,
//	     TestMountedBelowAWorkspace;
//	     mount points that are exchanged for links: TestExchangedPaths, TestLinkedMountPoint;
//	     directories within those of the host's programs: TestBesidePrograms
//	D8   files that are trusted later: TestProjectFilesWidenNothing; in review
//	     they are flagged: script review-hostile
//	D9   stubs left in the workspace: TestNoStubs
//	D10  predictable and foreign directories: TestControlSocket, TestForeignStateDirectory
//	D11  markers made by the guest: TestMarkersAreNotTrusted, TestStateDirectoryIsNotForged
//	D12  set-up through planted links: TestMountPointTricks, TestWorkspaceSwappedByLink,
//	     TestChownAndDevicesInWorkspace
//	D13  standard streams that are not pipes or files: TestDescriptors, TestHostileWorkspace
//	D14  archives: TestCopyOut, TestCopyIn; images: script image-odd; templates of
//	     strangers: script template; content written into one: TestSavedImage
//	D15  image digests: image/pull TestLoadRefused, TestSavedImage (of written images);
//	     bombs in archives: TestCopyOutSparse
//	D16  shared stores: TestNothingIsShared, TestSavedImage
//	D17  ignored secrets in clones: TestD17CloneHidesSecrets; in the home: TestCanaries
//
//	E1   hooks: TestE1E2NothingOfACloneRunsOnTheHost. Into a live workspace they can be
//	     planted; in review they are flagged (test/testdata/script/review-hostile.txtar)
//	E2   settings that name programs: TestE1E2NothingOfACloneRunsOnTheHost; of the user's own
//	     repository: C TestE2NothingOfTheRepositoryRuns
//	E3   files and links of git that point elsewhere: TestE3CloneLeadsAstray;
//	     C TestE3SpoofedGitDirectories, TestE3Exchanged, TestE3FetchStaysBeneath,
//	     TestE3FetchIntoAnother
//	E4   submodules: TestE4SubmodulesOfAClone
//	E5   names of branches: TestE5HostileRefs; C TestE5HostileNames, TestE5HostileAnswers
//	E6   git on both sides of one tree: test/testdata/script/files-git.txtar; a clone has
//	     one side
//
//	F1   unix sockets of the host: TestCanaries, TestDescriptors
//	F2   the control API from inside: TestCanaries (state directory), TestMarkersAreNotTrusted.
//	     Bothy has no dashboard
//	F3   peers of the control socket: TestControlSocket
//	F4   provisioning API: none exists; unknown project files: TestProjectFilesWidenNothing
//	F5   project files that widen: TestProjectFilesWidenNothing
//	F6   an off switch inside: none exists; TestNoWallNoStart
//	F7   silent fallback: TestNoWallNoStart
//	F8   weaker children: a sandbox makes none; the environment: TestEnvironmentStaysOutside
//	F9   decisions on command strings: Bothy makes none
//	F10  an agent's configuration that runs later: TestNothingIsShared; brought back to the
//	     host: flagged, script review-hostile
//	F11  /proc/self/exe and leaked descriptors: TestBreakOutSet, TestDescriptors
//	F12  auxiliary programs: TestPosture (no program but bothy runs), TestHostileSidecars
//	F13  set-uid launchers: TestPosture
//	F14  injected annotations: TestProjectFilesWidenNothing
//	F15  gVisor itself, and its bounds: TestPosture, TestDescriptors; saved layers come
//	     from the state directory, TestStateDirectoryStaysHidden, or from a file that its owner
//	     has sealed: script template, checkpoint-carry; sealedfile TestOthers
//	F16  the classic break-out set: TestBreakOutSet, TestCanaries
//	F17  bombs: TestForkBomb, TestThreadBomb, TestMemoryBomb, TestTmpBomb, TestDiskBomb,
//	     TestDescriptorBomb, TestOutputFlood, TestFrozenInit
//	F18  probes answered by the guest: TestFrozenInit, TestMarkersAreNotTrusted
//	F19  project files that run commands on the host: TestProjectFilesWidenNothing
//
//	G1   state that forks share: script fork, fork-running
//	G2   checkpoints of others: script checkpoint-carry; sealedfile TestOthers
//	G10  gates that run files written by agents: script loop-gates
//
// Scripts are in test/testdata/script. Cases C, of credentials, are in internal/gateway, in scripts, with
// real agents in test/agents, with git, npm and pip in TestC7TokensOfTools, with ssh in TestC10SSHAgent,
// and in saved images in TestSavedImage. The other cases G concern loops: their tests are in
// internal/loop and in the scripts loop-*.
package attacks
